/**
 * Tests service proxies on a real cluster of three nodes, isolated from the machine:
 *
 *     deno task test:cluster [PART]… [--proxy NAME]… [--focus REGEX] [--network NAME]     # see PARTS, PROXIES, NETWORKS
 *
 * With --focus, those end-to-end tests, neighbours and events in the life of a cluster run whose name matches, and the last results
 * of the others stay.
 * CLUSTER_PROGRAMS is a folder that tests/cluster/build has filled; Sluice is the executable at SLUICE_BINARY, or dist/sluice.
 * kube-proxy comes first: what fails with it as well is not counted. The results are written into dist/cluster, of which
 * `deno task compatibility` makes docs/compatibility.md.
 */
import { parseArgs } from "node:util";
import { existsSync } from "node:fs";
import { ISOLATED_PROGRAMS } from "../../demo/isolate.ts";
import { systemClock } from "../../platform/clock.ts";
import { runIsolated } from "../isolated.ts";
import type { Result } from "../suite.ts";
import { testAnswers } from "./answers.ts";
import { startCluster } from "./cluster.ts";
import { e2eImages, testE2e } from "./e2e.ts";
import { testFrontends } from "./frontends.ts";
import { AGNHOST, PAUSE, writeImages } from "./images.ts";
import { testLife } from "./life.ts";
import { testNeighbours } from "./neighbours.ts";
import { type NetworkName, NETWORKS } from "./networks.ts";
import { startOutsideClient } from "./pods.ts";
import { PROXIES, PROXY_NAMES, type ProxyKind, sluiceBinary, startProxy } from "./proxies.ts";
import { testRollout } from "./rollout.ts";
import { type PartOutcome, type PartResult, settingOf, type Trial, versionsOf, writeResult } from "./results.ts";

/** The parts of the suite, in the order in which they run. */
const PARTS: Readonly<Record<string, Part>> = {
  frontends: { test: testFrontends, needs: [] },
  answers: { test: testAnswers, needs: [] },
  neighbours: {
    test: testNeighbours,
    needs: ["kube-router", "sidecar", "kubectl", "metallb-controller", "metallb-speaker", "metallb-native.yaml"],
  },
  rollout: { test: testRollout, needs: [] },
  life: { test: testLife, needs: [] },
  e2e: { test: testE2e, needs: ["e2e.test", "ginkgo", "kubectl", "coredns"] },
};

interface Part {
  readonly test: (trial: Trial) => Promise<PartOutcome>;
  /** Programs beside those of the cluster. */
  readonly needs: readonly string[];
}

const NEEDED = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "etcd"];
const NEEDED_BY_NODES = [
  "containerd",
  "containerd-shim-runc-v2",
  "ctr",
  "cni/bridge",
  "cni/loopback",
  "cni/portmap",
  "root",
  "agnhost",
];

const MOST_COMPLAINTS = 10;

/** Why the suite cannot run; undefined if it can. */
function leftOut(programs: string | undefined): string | undefined {
  if (!programs) return "CLUSTER_PROGRAMS is not set to a folder that tests/cluster/build has filled";
  const missing = [...NEEDED, ...NEEDED_BY_NODES].filter((name) => !existsSync(`${programs}/${name}`));
  if (missing.length > 0) return `${programs} lacks ${missing.join(", ")}: run tests/cluster/build ${programs}`;
  if (!existsSync(sluiceBinary())) return `${sluiceBinary()} is missing: run ./compile.sh, or set SLUICE_BINARY`;
}

async function inside(args: readonly string[]): Promise<number> {
  const { positionals, values } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      focus: { type: "string" },
      network: { type: "string", default: "bridge" },
      proxy: { type: "string", multiple: true, default: [...PROXY_NAMES] },
    },
  });
  const kinds = PROXIES.filter(({ name }) => values.proxy.includes(name));
  const programs = Deno.realPathSync(Deno.env.get("CLUSTER_PROGRAMS")!);
  if (!(values.network in NETWORKS)) throw new Error(`--network is one of ${Object.keys(NETWORKS)}`);
  const networkName = values.network as NetworkName, network = NETWORKS[networkName];
  const parts = Object.entries(PARTS).filter(([name, { needs }]) => {
    if (positionals.length > 0 && !positionals.includes(name)) return false;
    const missing = [...needs, ...network.needs].filter((program) => !existsSync(`${programs}/${program}`));
    if (missing.length > 0) console.log(`${name} is left out: ${programs} lacks ${missing.join(", ")}`);
    return missing.length === 0;
  });
  // Not below /run, which is in memory.
  const folder = await Deno.makeTempDir({ dir: "/var/tmp", prefix: "sluice-cluster-" });
  const images = await writeImages([PAUSE, AGNHOST, ...await e2eImages(programs)], `${programs}/root`, folder);
  const cluster = await startCluster(programs, images, PAUSE.name, folder, network.attachment);
  const failed: string[] = [];
  let passed = 0;
  try {
    const outside = await startOutsideClient(cluster), pods = await network.start(cluster);
    const baseline = new Set<string>();
    for (const kind of kinds) {
      for (const [part, { test }] of parts) {
        const results = await attempt(
          part,
          test,
          kind,
          { cluster, outside, network: pods, focus: values.focus },
          networkName,
        );
        const isBaseline = kind.program === "kube-proxy";
        for (const result of results) {
          if (result.passed) passed++;
          else if (isBaseline) baseline.add(result.name);
          else if (!baseline.has(result.name)) failed.push(`${kind.name}: ${result.name}`);
        }
      }
    }
    for (const name of baseline) console.log(`fails with kube-proxy: ${name}`);
  } finally {
    await cluster.close();
  }
  for (const name of failed) console.log(`failed: ${name}`);
  if (failed.length === 0) await Deno.remove(folder, { recursive: true });
  else console.log(`logs: ${folder}`);
  console.log(`\n${passed} passed, ${failed.length} failed`);
  return failed.length === 0 && passed > 0 ? 0 : 1;
}

/** Runs a part with a proxy on all nodes, and writes its result. */
async function attempt(
  part: string,
  test: Part["test"],
  kind: ProxyKind,
  { cluster, outside, network, focus }: Omit<Trial, "proxy">,
  networkName: NetworkName,
): Promise<readonly Result[]> {
  console.log(`\n${part} with ${kind.name}`);
  const startedMs = systemClock.monotonic();
  const proxy = await startProxy(cluster, kind);
  try {
    const { results, counts } = await test({ cluster, outside, proxy, network, focus });
    if (results.length === 0) return results;
    const versions = await versionsOf(cluster);
    const result: PartResult = {
      part,
      proxy: kind.name,
      setting: settingOf(networkName, versions),
      date: new Date(systemClock.now()).toISOString().slice(0, 10),
      versions,
      results: results.map(({ name, passed }) => ({ name, passed })),
      counts,
      complaints: proxy.complaints().length,
    };
    writeResult(result, focus !== undefined);
    for (const line of proxy.complaints().slice(0, MOST_COMPLAINTS)) console.log(line);
    const good = results.filter(({ passed }) => passed).length;
    const seconds = Math.round((systemClock.monotonic() - startedMs) / 1000);
    console.log(`${good} of ${results.length} passed in ${seconds} s, ${result.complaints} complaints in the logs`);
    return results;
  } finally {
    await proxy.close();
  }
}

const reason = leftOut(Deno.env.get("CLUSTER_PROGRAMS"));
if (reason !== undefined) {
  console.log(`left out: ${reason}`);
  Deno.exit(0);
}
Deno.exit(await runIsolated(import.meta.url, inside, [...ISOLATED_PROGRAMS, "tests/cluster/traffic.ts"]));
