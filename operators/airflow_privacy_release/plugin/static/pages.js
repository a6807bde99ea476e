// Convenience only: every page works without this script.
(() => {
  for (const chooser of document.querySelectorAll("select[data-submits]"))
    chooser.addEventListener("change", () => chooser.form.requestSubmit());

  const search = document.querySelector("input[data-filters]");
  const rows = [...document.querySelectorAll("tr[data-text]")];
  const count = document.querySelector("[data-count]");
  if (search && count) {
    const whole = count.textContent;
    search.addEventListener("input", () => {
      const needle = search.value.trim().toLowerCase();
      let shown = 0;
      for (const row of rows) {
        row.hidden = !row.dataset.text.toLowerCase().includes(needle);
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = needle ? shown : whole;
    });
  }

  // A report follows the system's theme by itself, but must be informed of Airflow's theme.
  const frame = document.querySelector("iframe[data-source]");
  if (frame) {
    const theme = document.documentElement.dataset.theme;
    const address = frame.dataset.source;
    frame.src = theme ? address + (address.includes("?") ? "&" : "?") + "theme=" + theme : address;
  }

  const running = document.querySelector("[data-reloads]");
  if (running) setTimeout(() => location.reload(), 1000 * Number(running.dataset.reloads));

  const form = document.querySelector("form[data-picks]");
  if (form) {
    const required = Number(form.dataset.picks);
    const boxes = [...form.querySelectorAll("input[name=pick]")];
    const button = form.querySelector("[data-pick-button]");
    const check = () => {
      const chosen = boxes.filter((box) => box.checked).length;
      button.disabled = chosen !== required;
      button.textContent = chosen && chosen < required ? "Choose one more" : "Compare two";
      for (const box of boxes) box.disabled = chosen >= required && !box.checked;
    };
    form.addEventListener("change", check);
    addEventListener("pageshow", check);
    check();
  }
})();
