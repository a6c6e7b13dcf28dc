import assert from "node:assert/strict";
import { type Configuration, familySettings, featureSettings } from "../../../config/mod.ts";
import type { NodeState } from "../../../core/tracking/mod.ts";
import { accepted, HEADER } from "./parse.ts";

const NODE: NodeState = {
  ...{ nodeIPs: { IPv4: "192.0.2.1", IPv6: "::1" }, primaryFamily: "IPv4", zone: "", leaving: false, known: true },
  ...{ podCIDRs: { IPv4: undefined, IPv6: undefined }, deleted: false },
};

const settingsOf = (configuration: Configuration) =>
  familySettings("IPv4", configuration, NODE, { IPv4: [], IPv6: [] });

Deno.test("a worker gets the settings, and the kernel the sysctls, of the features that are on in the mode", () => {
  const settingsWith = (mode: string, ...flags: readonly string[]) => {
    const { configuration } = accepted(["--proxy-mode", mode, ...flags]);
    const { countTraffic, countsAttempts } = settingsOf(configuration);
    const sysctls = featureSettings(configuration).map(({ name, value }) => `${name}=${value}`);
    return { countTraffic, countsAttempts, sysctls };
  };
  const byDefault = { countTraffic: undefined, countsAttempts: undefined, sysctls: [] };
  const counting = { ...byDefault, countTraffic: true, sysctls: ["net.netfilter.nf_conntrack_acct=1"] };
  for (
    const [mode, flag, expected] of [
      ["nftables", "--v=1", byDefault],
      ["nftables", "--endpoint-failure-detection", { ...byDefault, countsAttempts: true }],
      ["nftables", "--traffic-metrics", counting],
      ["iptables", "--traffic-metrics", counting],
    ] as const
  ) {
    assert.deepEqual(settingsWith(mode, flag), expected, `${mode} ${flag}`);
  }
});

Deno.test("a flag of a feature wins over the configuration file, and one of kube-proxy is ignored beside it", () => {
  const { configuration, warnings } = accepted(["--config", "kp.yaml", "--canary", "--cluster-cidr", "10.0.0.0/8"], {
    files: { "kp.yaml": `${HEADER}canary:\n  enabled: false\n  interval: 3s\n` },
  });
  assert.deepEqual([configuration.canary.enabled, configuration.canary.intervalMs], [true, 3_000]);
  assert.deepEqual(configuration.clusterCIDR, {});
  assert.deepEqual(warnings, ["--cluster-cidr: ignored because --config is given"]);
});
