"""Commands that are started from the page (`serve --allow-jobs`): a queue in a folder, one job at a time per device."""
