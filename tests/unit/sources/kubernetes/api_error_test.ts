import assert from "node:assert/strict";
import { errorOfFetch, errorOfStatus, statusOf } from "../../../../sources/kubernetes/api_error.ts";

const subject = { verb: "list", resource: "services", server: "https://api:6443" };

Deno.test("a failed fetch is classified by the messages of all supported Deno versions", () => {
  const sent = "error sending request for url (https://api:6443/): ";
  const cases: readonly [string, string, RegExp][] = [
    [
      "client error (Connect): invalid peer certificate: UnknownIssuer",
      "certificate",
      /not trusted \(invalid peer cert/,
    ],
    [
      "client error (Connect): invalid peer certificate: NotValidForName",
      "certificate",
      /among the certificate's names/,
    ],
    [
      "client error (SendRequest): received fatal alert: CertificateRequired",
      "certificate",
      /check client-certificate/,
    ],
    [
      "client error (Connect): dns error: failed to lookup address information: Name or service not known",
      "dns",
      /name/,
    ],
    ["client error (Connect): tcp connect error: Connection refused (os error 111)", "unreachable", /answer \(tcp/],
    ["client error (SendRequest): invalid HTTP version parsed", "unreachable", /answer \(invalid HTTP version/],
  ];
  for (const [words, kind, message] of cases) {
    for (
      const error of [new TypeError(sent + words), new TypeError("fetch failed", { cause: new Error(sent + words) })]
    ) {
      const classified = errorOfFetch(subject, error);
      assert.equal(classified.kind, kind, words);
      assert.match(classified.message, message);
      // Commands that end show it, too.
      assert.doesNotMatch(classified.message, /retry/);
    }
  }
});

Deno.test("a missing resource names the first version of Kubernetes that has it", () => {
  for (const [since, version] of [[undefined, "1.21"], ["1.33", "1.33"]]) {
    assert.match(
      errorOfStatus({ ...subject, since }, 404, undefined).message,
      new RegExp(`of version ${version} or later`),
    );
  }
});

Deno.test("a status is classified by its code and reason", () => {
  const cases = [
    [401, "unauthorized"],
    [403, "forbidden"],
    [404, "not-found"],
    [410, "expired"],
    [429, "throttled"],
    [500, "unavailable"],
    [504, "unavailable"],
    [400, "rejected"],
  ] as const;
  for (const [code, kind] of cases) {
    const error = errorOfStatus(subject, code, undefined);
    assert.equal(error.kind, kind);
    assert.doesNotMatch(error.message, /retry|relist/);
  }
});

Deno.test("a resourceVersion that the server does not have yet counts as expired", () => {
  const status = statusOf({
    kind: "Status",
    code: 504,
    reason: "Timeout",
    details: { causes: [{ reason: "ResourceVersionTooLarge" }], retryAfterSeconds: 1 },
  });
  const error = errorOfStatus(subject, 504, status);
  assert.equal(error.kind, "expired");
  assert.equal(error.retryAfterMs, 1000);
});

Deno.test("a redirect is no refusal of selectors, and names the server", () => {
  const { kind, message } = errorOfStatus(subject, 302, undefined);
  assert.equal(kind, "unavailable");
  assert.match(message, /failed with 302; check the server https:\/\/api:6443: it redirects/);
});
