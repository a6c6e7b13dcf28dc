/** The removal of Sluice's tables beside ipvs mode; those beside the other modes are in tests/kernel. */
import assert from "node:assert/strict";
import { removeOwnTables } from "../../../../backends/nftables/other_proxies.ts";
import { INTERNAL_PORT } from "../../../../core/model/mod.ts";
import { type Runner, ToolMissingError, type ToolResult } from "../../../../backends/tools/runner.ts";
import { createFakeNftHost } from "../../../fakes/nft_runner.ts";
import { deliverOutput } from "../../../fakes/runner.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest, nftSettings } from "./host.ts";

/** The kernel's state that kube-proxy's ipvs mode leaves for the services below, by family. */
const SERVERS = {
  IPv4:
    "-A -t 10.96.0.10:80 -s rr\n-A -t 192.168.1.1:30080 -s rr\n-A -u 10.96.0.11:53 -s rr\n-A -u 192.168.1.1:30053 -s rr\n" +
    "-A --sctp-service 10.96.0.12:9 -s rr\n-A --sctp-service 192.168.1.1:30009 -s rr\n",
  IPv6: "-A -t [fd00:96::a]:80 -s rr\n-A -t [fd00:168::1]:30080 -s rr\n-A -u [fd00:96::b]:53 -s rr\n" +
    "-A -u [fd00:168::1]:30053 -s rr\n-A --sctp-service [fd00:96::c]:9 -s rr\n-A --sctp-service [fd00:168::1]:30009 -s rr\n",
};
const SETS = {
  IPv4:
    "add KUBE-NODE-PORT-TCP 30080\nadd KUBE-NODE-PORT-UDP 30053\nadd KUBE-NODE-PORT-SCTP-HASH 192.168.1.1,sctp:30009\n",
  IPv6:
    "add KUBE-6-NODE-PORT-TCP 30080\nadd KUBE-6-NODE-PORT-UDP 30053\nadd KUBE-6-NODE-PORT-SCTP-HASH fd00:168::1,sctp:30009\n",
};

for (const [family, clusterIPs] of [["IPv4", "10.96.0.1"], ["IPv6", "fd00:96::"]] as const) {
  Deno.test(`Sluice's table stays until ipvs mode serves its node ports too (${family})`, async () => {
    const host = createFakeNftHost();
    const { snapshot, table } = backendUnderTest(host, family);
    const at = (last: number) => clusterIPs + (family === "IPv4" ? last : "abc"[last]);
    const pod = family === "IPv4" ? "10.1.0.1:80" : "[fd00:1::1]:80";
    const ports = ([["tcp", 80, 30080], ["udp", 53, 30053], ["sctp", 9, 30009]] as const).map((
      [protocol, port, nodePort],
      i,
    ) => fakeServicePort(`ns/${protocol}:p`, { protocol, port, nodePort, clusterIP: at(i), clusterEndpoints: [pod] }));
    await snapshot(ports, nftSettings({ localTraffic: { by: "none" }, nodePortPrefixes: undefined }));
    const ours = [...table().sets.get("services")!.elements.keys()];
    assert.equal(ours.length, 6);
    // No other proxy ever serves it.
    const canary = `${at(1)} . tcp . ${INTERNAL_PORT}`;

    const printed: Record<string, string> = { ipvsadm: "", ipset: "" };
    const runner: Runner = {
      async run(call) {
        const { tool, args } = call, done = (stdout: string): ToolResult => ({ exitCode: 0, stdout, stderr: "" });
        if (printed[tool] !== undefined) return done(printed[tool]);
        if (tool !== "nft") throw new ToolMissingError(tool);
        if (args[1] !== "map") return await host.runner.run(call);
        const name = `${family === "IPv4" ? "ip" : "ip6"} sluice`;
        if (args.slice(2).join(" ") !== `${name} services`) {
          return { exitCode: 1, stdout: "", stderr: "Error: No such file or directory" };
        }
        const elements = [...ours, canary].map((key) => `${key} : goto x`).join(", ");
        const map = ["\tmap services {", `\t\telements = { ${elements} }`, "\t}"];
        return deliverOutput(done([`table ${name} {`, ...map, "}", ""].join("\n")), call);
      },
    };
    await assert.rejects(removeOwnTables(runner), /serves 6 of its 7 frontends/);
    printed["ipvsadm"] = SERVERS[family];
    await assert.rejects(removeOwnTables(runner), /serves 3 of its 7 frontends/);
    printed["ipset"] = SETS[family === "IPv4" ? "IPv6" : "IPv4"];
    await assert.rejects(removeOwnTables(runner), /serves 3 of its 7 frontends/);
    printed["ipset"] = SETS[family];
    assert.equal((await removeOwnTables(runner)).length, 1);
    assert.deepEqual([...host.tables.keys()], []);
  });
}
