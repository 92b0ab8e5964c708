"""The dashboard at `/ui`: pages for people, drawn in the browser from the proxy's JSON.

`add_dashboard` (dashboard.py) adds it to the proxy's application. The frame of all pages, and parts that pages of other
servers have too, are in `quicksilver/common/web`. How a page is made:

1. **Routes.** A module `<name>_page.py` has a function `<name>_routes(pages, parts) -> APIRouter`, which
   `dashboard.page_routes` lists. Paths begin behind `/ui`. A handler returns
   `pages.render(request, "<name>.html", title="Nodes", section="nodes", ...)`. `section` is a path of `SITE.sections`
   (site.py), and marks the entry of the navigation.
2. **Template.** `templates/<name>.html` extends `layout.html` and fills `{% block main %}`. It loads its script with
   `{% block scripts %}<script type="module" src="{{ static }}js/<name>.js"></script>{% endblock %}`. Autoescape is on.
   The Content-Security-Policy allows neither inline scripts nor inline styles (no `style=` either; scripts may set
   `element.style`), nor anything from another host.
3. **Addresses.** All are relative, so that a page works below any prefix of a web proxy (YARN's, Knox). In templates
   `{{ root }}` leads to the proxy's `/` and `{{ ui }}` to `/ui/`: `{{ root }}v1/health`, `{{ ui }}nodes`. In scripts
   `toRoot("v1/health")` and `toUi("nodes")` of `frame.js` do the same. Static files are below `{{ static }}`, which has
   a hash of all of them in its path, so that browsers keep them for a year.
4. **JSON.** A page polls JSON of `/v1/...`, or a compact form of its own below `/ui/data/<name>`, made with
   `Snapshot(build, every_s)`: rendered once per `every_s` for all viewers, with ETag, 304 and gzip. `build` returns
   bytes of JSON or what json.dumps takes, at once or as a coroutine; nothing is rendered without a viewer.
5. **Every number links to its JSON.** Templates: `{{ number("id", "v1/health") }}` (macros.html) makes a link whose
   text a script sets with `setNumber(id, text)`. Tables: a column with `json: row => toRoot("v1/...")`.
6. **Live.** `poll(url, seconds, handle)` of `poll.js` calls `handle(json)` when the answer changed. It stops while the
   page is hidden or paused (button in the header, `?live=off`), backs off on errors and shows them in a banner.
7. **Charts.** `new TimeChart(element, {series: [{key, label, color}], stacked, unit})`, `.draw({t: [...], key: [...]})`
   (`chart.js`, uPlot). Colours are names of CSS variables (`--g`, `--q`, `--waiting`, `--shrunk`, `--idle`, `--bad`).
   A legend with values is always there: colour is never the only sign. Arrow keys move the cursor.
8. **Tables.** `new DataTable(element, {columns, rowKey, pageSize})`, `.update(rows)` (`table.js`): sorting by header
   buttons, filter, paging; their state is in the query of the page's address.
9. **Actions.** `send(method, path, body)` of `frame.js` posts JSON with the CSRF header, and shows refusals. The server
   checks origin, CSRF token and the role admin (`access.py`, `quicksilver/common/http/access.py`).
   `document.body.dataset.role` is `admin`, `read` or `open` (no security); hide what the role may not do.
10. **Empty states** say what to do: `{% call empty("No nodes yet") %}...{% endcall %}`, or `emptyState(title, text)`.

Access: as for REST. A browser logs in at `/ui/login` with a token, which is then in a cookie (HttpOnly,
SameSite=Strict).

Tests: tests/rm_proxy/ui/. `serving(app)` (serving.py) serves an application, `browser` (fixture) is a Chromium, and
`inspect_page(browser, url, name)` takes screenshots in both themes, and checks console, requests, contrast, names of
controls, and the walk by keyboard.
"""
