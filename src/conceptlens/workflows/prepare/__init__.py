"""`conceptlens data prepare`: tables for the recipes and comparisons, from the folders as they are published."""
