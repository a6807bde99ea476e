"""Re-release people who appear in earlier releases so that combining the releases singles out no one."""
