// The pages follow the theme that was chosen in Airflow, which keeps it under this name; else the system's.
(() => {
  const follow = () => {
    let chosen = null;
    try { chosen = localStorage.getItem("theme"); } catch { /* storage is switched off */ }
    const root = document.documentElement;
    if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
    else delete root.dataset.theme;
  };
  follow();
  addEventListener("storage", follow);
})();
