import assert from "node:assert/strict";
import { checkSite, readSiteAddress, type SiteOptions } from "../../../../features/site/options.ts";

const SITE: SiteOptions = {
  ...{ name: "north", leaseNamespace: "sluice-sites", leaseDurationMs: 10_000, renewPeriodMs: 4_000 },
  ...{ listenAddress: ":12094", advertiseAddress: "" },
  ...{ tlsCAFile: "", tlsCertFile: "", tlsPrivateKeyFile: "" },
};

/** Changes to a valid site, and the field that each makes invalid; none if the site stays valid. */
const CASES: readonly (readonly [Partial<SiteOptions>, string?])[] = [
  [{}],
  ...["a", "7", "a".repeat(40), "a-b"].map((name) => [{ name }] as const),
  ...["A", "-a", "a-", "a.b", "a".repeat(41)].map((name) => [{ name }, "site.name"] as const),
  [{ name: "", leaseDurationMs: 0, listenAddress: "" }],
  ...[":1", ":65535", "10.0.0.1:12094", "[fd00::1]:80"].map((listenAddress) => [{ listenAddress }] as const),
  ...["", ":0", ":65536", "unix:/run/x"].map((one) => [{ listenAddress: one }, "site.listenAddress"] as const),
  ...[1_000, 600_000].map((ms) => [{ leaseDurationMs: ms, renewPeriodMs: 500 }] as const),
  ...[0, 999, 1_500, 601_000].map((ms) => [{ leaseDurationMs: ms, renewPeriodMs: 100 }, "site.leaseDuration"] as const),
  ...[1, 5_000].map((renewPeriodMs) => [{ renewPeriodMs }] as const),
  ...[-1, 0, 5_001].map((renewPeriodMs) => [{ renewPeriodMs }, "site.renewPeriod"] as const),
  [{ tlsCAFile: "ca", tlsCertFile: "cert", tlsPrivateKeyFile: "key" }],
  [{ tlsCAFile: "ca", tlsCertFile: "cert" }],
  [{ tlsCertFile: "cert", tlsPrivateKeyFile: "key" }, "site.tlsPrivateKeyFile"],
  [{ tlsCAFile: "ca", tlsPrivateKeyFile: "key" }, "site.tlsPrivateKeyFile"],
];

for (const [changes, field] of CASES) {
  Deno.test(`a site with ${JSON.stringify(changes)} is ${field === undefined ? "valid" : `invalid: ${field}`}`, () => {
    const reported: string[] = [];
    checkSite({ ...SITE, ...changes }, (field) => void reported.push(field));
    assert.deepEqual(reported, field === undefined ? [] : [field]);
  });
}

Deno.test("the leader serves at HOST:PORT, or at all addresses with :PORT", () => {
  assert.deepEqual(readSiteAddress("10.0.0.1:12094"), { kind: "tcp", host: "10.0.0.1", port: 12094 });
  assert.equal(readSiteAddress(":12094")?.port, 12094);
});
