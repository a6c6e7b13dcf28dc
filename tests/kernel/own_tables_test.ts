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

/** The commands that add a map with frontends, or node ports without a type of addresses, to a table. */
const mapOf = (table: string, map: string, type: string, ...frontends: readonly string[]) =>
  [
    `nft add table ${table}`,
    `nft 'add map ${table} ${map} { type ${type && `${type} . `}inet_proto . inet_service : verdict; }'`,
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

Deno.test("node ports count as served by kube-proxy's rules for nftables and iptables, with and without endpoints; the canary's need not", async () => {
  requireIsolation();
  const runner = createProcessRunner({ clock: systemClock, path: searchPath() });
  const port = (number: number, protocol = "tcp") => `0.0.0.0 . ${protocol} . ${number}`;
  const ports = [port(30001), port(30002, "udp"), port(30003), port(30004), port(30005, "udp")];
  const rule = (table: string, chain: string, match: string, protocol: string, number: number) =>
    `iptables -t ${table} -N ${chain} 2>/dev/null || :; iptables -t ${table} -A ${chain} ${match} -p ${protocol} ` +
    `-m comment --comment ns/svc:p -m ${protocol} --dport ${number} -j ACCEPT`;
  const steps: readonly string[] = [
    mapOf("ip kube-proxy", "service-nodeports", "", "tcp . 30001"),
    mapOf("ip kube-proxy", "no-endpoint-nodeports", "", "udp . 30002"),
    rule("nat", "KUBE-NODEPORTS", "", "tcp", 30003),
    rule("filter", "KUBE-EXTERNAL-SERVICES", "-m addrtype --dst-type LOCAL", "tcp", 30004),
    rule("nat", "KUBE-NODEPORTS", "", "udp", 30005),
  ];
  try {
    const canary = "169.254.238.1 . tcp . 10260";
    await sh(mapOf("ip sluice", "services", "ipv4_addr", ...ports, canary));
    for (const [done, step] of steps.entries()) {
      const left = steps.length - done;
      await assert.rejects(
        removeOwnRules(runner),
        new RegExp(`serves ${left} of its 6 frontends.*nft delete table ip sluice`),
      );
      await sh(step);
    }
    assert.deepEqual(await removeOwnRules(runner), ["nftables table ip sluice"]);
  } finally {
    await sh("nft flush ruleset");
  }
});
