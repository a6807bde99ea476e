// Comfort only: everything works without it.
(() => {
  for (const chooser of document.querySelectorAll("select[data-submits]"))
    chooser.addEventListener("change", () => chooser.form.requestSubmit());

  const search = document.querySelector("input[data-filters]");
  const rows = [...document.querySelectorAll("tr[data-text]")];
  const count = document.querySelector("[data-count]");
  if (search && count) {
    const whole = count.textContent;
    search.addEventListener("input", () => {
      const wanted = search.value.trim().toLowerCase();
      let shown = 0;
      for (const row of rows) {
        row.hidden = !row.dataset.text.toLowerCase().includes(wanted);
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = wanted ? shown : whole;
    });
  }

  // A report follows the system's theme by itself; Airflow's it has to be told.
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
    const wanted = Number(form.dataset.picks);
    const boxes = [...form.querySelectorAll("input[name=pick]")];
    const button = form.querySelector("[data-pick-button]");
    const check = () => {
      const chosen = boxes.filter((box) => box.checked).length;
      button.disabled = chosen !== wanted;
      button.textContent = chosen && chosen < wanted ? "Choose one more" : "Compare two";
      for (const box of boxes) box.disabled = chosen >= wanted && !box.checked;
    };
    form.addEventListener("change", check);
    addEventListener("pageshow", check);
    check();
  }
})();
