/** Rules for the page's scripts: mistakes, not taste. */
import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["**/vendor/**", "**/packed.js", "node_modules/**", ".venv/**", "build/**", "runs/**", "docs/**", "evidence/**"] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2022, sourceType: "module", globals: globals.browser },
    rules: {
      eqeqeq: "error",
      "no-var": "error",
      "no-control-regex": "off", // a table must not hold control characters
      "prefer-const": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_$", destructuredArrayIgnorePattern: "^_", ignoreRestSiblings: true }],
      "max-lines": ["error", 450],
    },
  },
  {
    files: ["src/conceptlens/web/client/js/views/**"],
    rules: { "max-lines": ["error", 250], "max-len": ["error", { code: 180, ignoreComments: true, ignorePattern: "^\\s*[\"`]" }] },
  },
  { files: ["scripts/**", "tests/**", "eslint.config.js"], languageOptions: { globals: globals.node } },
];
