/** Masquerading in iptables and ipvs mode, from the rules that kube-proxy's tests expect since 1.37. */
import assert from "node:assert/strict";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest as iptablesUnderTest, createHost } from "../iptables/host.ts";
import { backendUnderTest as ipvsUnderTest, createIpvsHost } from "../ipvs/host.ts";

const UNKNOWN_OPTION = {
  how: "exits",
  exitCode: 2,
  stderr: 'iptables-restore v1.6.0: unknown option "--random-fully"\nError occurred at line: 3\n',
} as const;

for (
  const [mode, create, start] of [
    ["iptables", createHost, iptablesUnderTest],
    ["ipvs", createIpvsHost, ipvsUnderTest],
  ] as const
) {
  // kube-proxy requires the option since 1.37: without it, its rules would be refused.
  for (const isSupported of [true, false]) {
    const how = isSupported ? "are fully random" : "are the kernel's choice if the host cannot";
    Deno.test(`kube-proxy's masquerading: source ports ${how} (${mode})`, async () => {
      const host = create();
      if (!isSupported) host.runner.inject(({ stdin }) => stdin.includes("--random-fully"), UNKNOWN_OPTION);
      const { snapshot } = await start(host);
      assert.deepEqual((await snapshot([fakeServicePort("ns/svc:p80")])).problems, []);
      const rules = host.runner.dump().split("\n").filter((line) => line.includes("-j MASQUERADE"));
      assert.ok(rules.length > 0);
      assert.ok(rules.every((rule) => rule.includes("--random-fully") === isSupported), rules.join("\n"));
    });
  }
}
