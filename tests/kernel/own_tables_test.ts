/** `sluice --cleanup --only-own` beside kube-proxy's rules, as the kernel's tools print them. */
import assert from "node:assert/strict";
import { removeOwnRules } from "../../backends/mod.ts";
import { createProcessRunner } from "../../backends/tools/mod.ts";
import { requireIsolation } from "../../demo/isolate.ts";
import { searchPath } from "../../platform/mod.ts";
import { systemClock } from "../../platform/clock.ts";

async function sh(script: string): Promise<string> {
  const { stdout, stderr, success } = await new Deno.Command("sh", { args: ["-ec", script], stdin: "null" }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

/** The commands that add a map with frontends to a table. */
const mapOf = (table: string, map: string, type: string, ...frontends: readonly string[]) =>
  [
    `nft add table ${table}`,
    `nft 'add map ${table} ${map} { type ${type} . inet_proto . inet_service : verdict; }'`,
    ...frontends.map((frontend) => `nft 'add element ${table} ${map} { ${frontend} : accept }'`),
  ].join("\n");

Deno.test("only Sluice's tables are deleted, and only once other proxies serve all of their frontends", async () => {
  requireIsolation();
  const runner = createProcessRunner({ clock: systemClock, path: searchPath() });
  const remove = () => removeOwnRules(runner);
  try {
    assert.deepEqual(await remove(), []);
    await sh([
      mapOf(
        "ip sluice",
        "services",
        "ipv4_addr",
        "10.96.0.1 . tcp . 443",
        "10.96.0.2 . tcp . 80",
        "10.96.0.10 . udp . 53",
      ),
      mapOf("ip6 sluice", "services", "ipv6_addr", "fd00::1 . tcp . 80"),
    ].join("\n"));
    await assert.rejects(remove(), /no other proxy serves 3 of its 3 frontends, such as 10\.96\.0\.1 \. tcp \. 443/);
    await sh([
      mapOf("ip kube-proxy", "service-ips", "ipv4_addr", "10.96.0.1 . tcp . 443"),
      mapOf("ip kube-proxy", "no-endpoint-services", "ipv4_addr", "10.96.0.2 . tcp . 80"),
    ].join("\n"));
    await assert.rejects(remove(), /no other proxy serves 1 of its 3 frontends, such as 10\.96\.0\.10 \. udp \. 53/);
    const rule = (tool: string, prefix: string, protocol: string, port: number) =>
      `${tool} -t nat -N KUBE-SERVICES; ${tool} -t nat -A KUBE-SERVICES -d ${prefix} -p ${protocol} -m comment ` +
      `--comment "a b" -m ${protocol} --dport ${port} -j ACCEPT`;
    await sh(rule("iptables", "10.96.0.10/32", "udp", 53));
    await assert.rejects(remove(), /no other proxy serves 1 of its 1 frontend, such as fd00::1 \. tcp \. 80/);
    assert.match(await sh("nft list tables"), /table ip sluice/, "no table is deleted while one is needed");
    await sh(rule("ip6tables", "fd00::1/128", "tcp", 80));
    assert.deepEqual(await remove(), ["nftables table ip sluice", "nftables table ip6 sluice"]);
    const left = await sh("nft list tables; iptables -t nat -S");
    assert.ok(
      !left.includes("sluice") && left.includes("table ip kube-proxy") && left.includes("-d 10.96.0.10/32"),
      left,
    );
  } finally {
    await sh("nft flush ruleset");
  }
});
