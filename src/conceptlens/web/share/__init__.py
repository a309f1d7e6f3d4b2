"""One file to send: any set of the page's views of a run, with data, pictures and a what-if that needs no server.

The page's own modules are packed into one script (`packed.js`, by `make pack-web`), the server's own answers are asked
for and packed (`inside`, `plan`), and a hand-over note says what is there (`note`). `conceptlens share RUN FILE.html`
writes it.
"""
