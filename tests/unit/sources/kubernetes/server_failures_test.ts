import assert from "node:assert/strict";
import { createProblemBoard } from "../../../../core/problems/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { ApiError, type ApiErrorKind } from "../../../../core/objects/mod.ts";
import { errorOfFetch } from "../../../../sources/kubernetes/api_error.ts";
import { createServerFailures } from "../../../../sources/kubernetes/recovery.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

const SERVER = "https://api:6443";

function failuresOf() {
  const board = createProblemBoard(createFakeClock(), silentLogger);
  const failures = createServerFailures({ server: SERVER }, board.report);
  const problems = () => board.current().map(({ code, subject, detail }) => ({ code, subject, detail }));
  return { failures, problems };
}

for (
  const [kind, expected] of [
    ["unreachable", "api-unreachable"],
    ["dns", "api-unreachable"],
    ["timeout", "api-slow"],
    ["certificate-expired", "api-certificate-expired"],
    ["certificate", "api-certificate-untrusted"],
    ["unauthorized", "api-unauthorized"],
    ["forbidden", "api-forbidden"],
    ["unavailable", "source-unreachable"],
  ] as const satisfies readonly (readonly [ApiErrorKind, string])[]
) {
  Deno.test(`an API server that fails with ${kind} is the problem ${expected}, with a fix of its own`, () => {
    const { failures, problems } = failuresOf();
    failures.failed("services", new ApiError(kind, "no"));
    assert.deepEqual(problems(), [{ code: expected, subject: SERVER, detail: "no" }]);
  });
}

Deno.test("one cause is one problem that names all kinds, and two causes are two", () => {
  const { failures, problems } = failuresOf();
  failures.failed("services", new ApiError("unreachable", "connection refused"));
  failures.failed("nodes", new ApiError("unreachable", "connection refused"));
  failures.failed("endpointslices", new ApiError("forbidden", "may not list endpointslices"));
  assert.deepEqual(problems().map(({ code, detail }) => `${code}: ${detail}`).toSorted(), [
    "api-forbidden: may not list endpointslices",
    "api-unreachable: connection refused (all of services, nodes)",
  ]);
  failures.answered("services");
  failures.answered("nodes");
  assert.deepEqual(problems().map(({ code }) => code), ["api-forbidden"]);
});

for (
  const [text, kind, whose] of [
    ["invalid peer certificate: Expired", "certificate-expired", /the certificate of https:\/\/api:6443 is refused/],
    [
      "invalid peer certificate: certificate not valid yet: verification time 1",
      "certificate-expired",
      /is refused, which is not valid yet/,
    ],
    ["received fatal alert: CertificateExpired", "certificate-expired", /the client certificate of the user/],
    ["invalid peer certificate: UnknownIssuer", "certificate", /is not trusted/],
  ] as const
) {
  Deno.test(`the TLS failure "${text}" says whose certificate it is`, () => {
    const error = errorOfFetch({ verb: "list", resource: "services", server: SERVER }, new Error(text));
    assert.equal(error.kind, kind);
    assert.match(error.message, whose);
  });
}

Deno.test("the problem of several kinds has the message of the first one that failed", () => {
  const { failures, problems } = failuresOf();
  failures.failed("services", new ApiError("unreachable", "connection refused"));
  failures.failed("nodes", new ApiError("unreachable", "no route to host"));
  assert.match(problems()[0]!.detail, /^connection refused \(all of services, nodes\)$/);
  failures.answered("services");
  assert.equal(problems()[0]!.detail, "no route to host");
});
