"""HTTP API without authentication: health, OpenAPI document, documentation pages, and 404 or 405 for all other paths."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files

from shared.aws.runtime import EntryPoint, Resources
from shared.core.errors import NotFound
from shared.core.settings import Settings
from shared.schema import HEALTH
from shared.web.http import http_function, operation
from shared.web.requests import Request
from shared.web.responses import HttpResponse, redirect, respond, text_response

HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Video metadata API</title>
<link rel="icon" href="favicon.ico" type="image/svg+xml">
"""
TOKENS = """<p>Requests need a token, sent as <code>Authorization: Bearer ...</code>. On a laptop, <code>make token</code>
prints one. On AWS, users sign in at <code>SignInUrl</code>, and programs request tokens from <code>TokenUrl</code>. Both URLs
are outputs of the stack <code>...-Identity</code>. A deployment that is configured with another issuer accepts the tokens of
that issuer.</p>
"""
"""Paragraph about tokens in HOME_PAGE and DOCS_PAGE. See docs/environments.md, "Sign-in". infra/identity.py defines the
stack outputs that the paragraph names."""
HOME_PAGE = f"""{HEAD}<h1>Video metadata API</h1>
<ul>
<li><a href="console/">The console</a></li>
<li><a href="docs">Try every operation</a></li>
<li><a href="openapi.json">The OpenAPI document</a></li>
<li><a href="health">Health</a></li>
</ul>
{TOKENS}</html>
"""
DOCS_PAGE = f"""{HEAD}<link rel="stylesheet" href="docs/swagger-ui.min.css">
<div class="swagger-ui"><div class="wrapper">{TOKENS}</div></div>
<div id="docs"></div>
<script src="docs/swagger-ui-bundle.min.js"></script>
<script src="docs/start.js"></script>
</html>
"""
START_SCRIPT = """SwaggerUIBundle({
  url: "openapi.json", dom_id: "#docs", deepLinking: true, persistAuthorization: true, tryItOutEnabled: true
});
"""
# All files are loaded from this origin, so the documentation works offline. Swagger UI needs inline styles and icons.
POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"
ICON = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#c22" d="M3 1l12 7-12 7z"/></svg>'
# Vary prevents caches from sending compressed responses to all clients. The short max-age limits how long an old release is shown.
BY_ENCODING = {"Vary": "Accept-Encoding"}
CACHED = {"Cache-Control": "public, max-age=3600", **BY_ENCODING}


class PublicHandlers:
    """Handlers of the operations that need no token. One instance serves all requests, so its attributes contain no
    data of a single request."""

    def __init__(self, settings: Settings, resources: Resources) -> None:
        self.table = resources.table(settings.table_name)

    @operation("getHealth")
    def health(self, _: Request) -> HttpResponse:
        """GET /health: 200 if the table can be read, else 503."""
        self.table.get(HEALTH.key())
        return respond(200, {"status": "ok"}, headers={"Cache-Control": "no-store"})

    @operation("getOpenApi")
    def openapi(self, _: Request) -> HttpResponse:
        """GET /openapi.json"""
        from shared.openapi.document import document

        return respond(200, document(), headers={"Cache-Control": "public, max-age=60", **BY_ENCODING})

    @operation("getDocs")
    def docs(self, _: Request) -> HttpResponse:
        """GET /docs"""
        return _page(DOCS_PAGE)

    @operation("getDocsAsset")
    def docs_asset(self, request: Request) -> HttpResponse:
        """GET /docs/{asset}: a file of the Swagger UI in Powertools, or the script that starts Swagger UI."""
        match request.path["asset"]:
            case "start.js":
                return text_response(START_SCRIPT, "text/javascript", CACHED)
            case "swagger-ui-bundle.min.js" as name:
                return text_response(_swagger_ui(name), "text/javascript", CACHED)
            case "swagger-ui.min.css" as name:
                return text_response(_swagger_ui(name), "text/css", CACHED)
            case _:
                raise NotFound("The docs have no file of this name.")


def _page(content: str) -> HttpResponse:
    return text_response(content, "text/html", {"Content-Security-Policy": POLICY, **CACHED})


PAGES: Mapping[str, Callable[[], HttpResponse]] = {
    "/": lambda: _page(HOME_PAGE),
    # Relative, so that the URL is also valid behind a proxy with another path prefix.
    "/docs/": lambda: redirect("../docs", CACHED),
    # Some gateways do not match this path with the console's route `/console/{file+}` (infra/console.py).
    "/console/": lambda: redirect("index.html", CACHED),
    "/favicon.ico": lambda: text_response(ICON, "image/svg+xml", CACHED),
}
"""Responses for paths that browsers request but that are not in the route table. The route `$default` invokes this
function for these paths."""


@cache
def _swagger_ui(name: str) -> str:
    return files("aws_lambda_powertools.event_handler.openapi.swagger_ui").joinpath(name).read_text(encoding="utf-8")


lambda_handler = EntryPoint(
    Settings, http_function(PublicHandlers, compress=True, pages=PAGES), preload=("shared.openapi.document",)
)
