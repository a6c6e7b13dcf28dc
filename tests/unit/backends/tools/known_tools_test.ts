import assert from "node:assert/strict";
import { loadBackend } from "../../../../backends/registry.ts";
import { flawsOf, knownTool, TOOLS, tooOld, versionIn } from "../../../../backends/tools/known_tools.ts";
import type { Runner } from "../../../../backends/tools/runner.ts";
import { createLogger } from "../../../../platform/log.ts";
import { createFakeNftHost } from "../../../fakes/nft_runner.ts";
import { withTools } from "../../../../build/versions.ts";

Deno.test("docs/versions.md has the tools and versions of the table", () => {
  const page = Deno.readTextFileSync(new URL("../../../../docs/versions.md", import.meta.url));
  assert.equal(page, withTools(page), "run `deno task versions`");
});

Deno.test("each tool's version is found in what it prints", () => {
  const printed = {
    "nftables v1.0.6 (Lester Gooch #5)\n": "1.0.6",
    "conntrack v1.4.6 (conntrack-tools)": "1.4.6",
    "iptables v1.8.9 (nf_tables)": "1.8.9",
    "ipset v7.17, protocol version: 7": "7.17",
    "ipvsadm v1.31 2019/12/24 (compiled with popt and IPVS v1.2.1)": "1.31",
    "ip utility, iproute2-6.1.0, libbpf 1.1.2": "6.1.0",
    "sysctl from procps-ng 4.0.2": "4.0.2",
    "kmod version 30\n+ZSTD +XZ": "30",
    "": undefined,
  };
  for (const [text, version] of Object.entries(printed)) assert.equal(versionIn(text), version, text);
});

Deno.test("a version is too old only below the oldest that works, number by number", () => {
  const isTooOld = (version: string) => tooOld(TOOLS.nft, `nftables v${version}`) !== undefined;
  assert.deepEqual(["0.9.8", "1.0", "1.0.2", "1.0.3", "1.0.10", "1.1", "2"].map(isTooOld), [
    ...[true, true, true, false, false, false, false],
  ]);
  assert.equal(tooOld(TOOLS.nft, "nft of an unknown version"), undefined);
  assert.equal(tooOld(TOOLS.sysctl, "sysctl from procps-ng 3.2"), undefined);
});

Deno.test("a tool is known by each name under which it runs", () => {
  assert.equal(knownTool("ip6tables"), TOOLS.ip6tables);
  assert.equal(knownTool("ip6tables-restore"), TOOLS.ip6tables);
  assert.equal(knownTool("ip6tables-legacy"), undefined);
});

Deno.test("flaws are known of the versions before their fix", () => {
  assert.match(flawsOf(TOOLS.conntrack, "conntrack v1.4.6 (conntrack-tools)"), /^before 1\.4\.7, it deletes/);
  assert.equal(flawsOf(TOOLS.conntrack, "conntrack v1.4.7 (conntrack-tools)"), "");
  assert.equal(flawsOf(TOOLS.nft, "nftables v1.0.6", ({ signal }) => signal === "SIGKILL"), "");
});

Deno.test("the log of a start names tools that are too old, and known flaws", async () => {
  const host = createFakeNftHost(), clock = host.clock;
  const log: string[] = [];
  const logger = createLogger({ level: "info", format: "text", clock, write: (line) => void log.push(line) });
  const runner: Runner = {
    ...host.runner,
    run: (call) =>
      call.tool === "conntrack" && call.args[0] === "--version"
        ? Promise.resolve({ exitCode: 0, stdout: "conntrack v1.4.5 (conntrack-tools)\n", stderr: "" })
        : host.runner.run(call),
  };
  const backend = await loadBackend("nftables", { family: "IPv4", runner, clock, logger });
  await backend.configure!();
  const text = log.join("");
  assert.match(text, /WARN .*a tool is too old .*conntrack 1\.4\.5 is too old, 1\.4\.6 or newer is needed/);
  assert.match(text, /INFO .*known flaws of a tool .*tool=nft version=1\.0\.6 .*before 1\.1, it ends with SIGSEGV/);
});
