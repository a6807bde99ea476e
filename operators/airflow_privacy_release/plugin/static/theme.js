// The pages follow the theme chosen in Airflow, which stores it under this name; otherwise the system's theme.
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
