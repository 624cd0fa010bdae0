document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const text = document.getElementById("markdown");
  text.select();
  // pages of other machines without TLS have no clipboard
  const copied = navigator.clipboard ? await navigator.clipboard.writeText(text.value).then(() => true, () => false) : document.execCommand("copy");
  button.parentElement.querySelector(".copied").textContent = copied ? "copied" : "not copied: press Ctrl+C";
});
