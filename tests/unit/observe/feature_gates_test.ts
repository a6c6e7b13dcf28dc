/** Effects of feature gates on a whole proxy. */
import assert from "node:assert/strict";
import { type WholeProxy, withManifests, withWholeProxy } from "../../fakes/whole_proxy.ts";
import { until } from "../../fakes/wait.ts";

const MANIFESTS = `
apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec:
  clusterIP: 10.0.0.1
  clusterIPs: [10.0.0.1]
  externalIPs: [192.0.2.7]
  ports: [{ port: 80, protocol: TCP }]
`;

/** Runs `test` with a proxy of one service with an external IP once the service is served. */
async function withGates(gates: string, test: (proxy: WholeProxy) => Promise<void>): Promise<void> {
  await withManifests(MANIFESTS, async ({ args }) => {
    const flags = gates === "" ? [] : [`--feature-gates=${gates}`];
    await withWholeProxy({ args: [...args, ...flags] }, async (proxy) => {
      await until(async () => (await text(proxy, "")).includes("10.0.0.1"));
      await test(proxy);
    });
  });
}

const text = async ({ url }: WholeProxy, path: string) => await (await fetch(url + path)).text();

Deno.test("external IPs are served unless AllowServiceExternalIPs is off", async () => {
  await withGates("", async (proxy) => assert.match(await text(proxy, ""), /192\.0\.2\.7/));
  await withGates(
    "AllowServiceExternalIPs=false",
    async (proxy) => assert.doesNotMatch(await text(proxy, ""), /192\.0\.2\.7/),
  );
});

Deno.test("/flagz and /statusz are served unless their gates are off", async () => {
  await withGates("", async (proxy) => {
    // The format of the log is the one in use: no flag asks for it.
    assert.match(
      await text(proxy, "flagz"),
      /^\nkube-proxy flagz\n[^]*\nlogging-format: text\n[^]*\nproxy-mode: nftables\n/,
    );
    assert.match(await text(proxy, "configz"), /"logging":\{"format":"text",/);
    assert.match(await text(proxy, "statusz"), /^\nkube-proxy statusz\n/);
  });
  await withGates("ComponentFlagz=false,ComponentStatusz=false", async (proxy) => {
    for (const path of ["flagz", "statusz"]) assert.match(await text(proxy, path), /^not found/);
  });
});
