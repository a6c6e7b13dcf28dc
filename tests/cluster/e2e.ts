/** Kubernetes' own end-to-end tests of the network. */
import { existsSync } from "node:fs";
import { waitFor } from "../chaos/wait.ts";
import { type Cluster, DNS_ADDRESS, OUTSIDE } from "./cluster.ts";
import type { Image } from "./images.ts";
import { create } from "./pods.ts";
import type { PartOutcome, Trial } from "./results.ts";

const FOCUS = String.raw`\[sig-network\] (Services|Conntrack|HostPort|Traffic Distribution|DNS|Networking Granular)`;
const SKIP = String
  .raw`\[Disruptive\]|\[Slow\]|\[Serial\]|LoadBalancer|SCTP|\[Feature:(Networking-IPv[46]|Networking-DNS)`;
/** Tests that run at a time; most of them wait. */
const AT_ONCE = 4;
const LIMIT_S = 3000;
const LISTENS_WITHIN_MS = 60_000;

/** The commands of the tests' images, for pods that have none of their own, by the last part of the image's name. */
const COMMANDS: Readonly<Record<string, Omit<Image, "name">>> = {
  "agnhost": { command: ["/agnhost", "pause"], hasEntrypoint: true },
  "nginx": { command: ["/agnhost", "pause"], hasEntrypoint: true },
  "pause": { command: ["/agnhost", "pause"], hasEntrypoint: true },
  "regression-issue-74839": { command: ["/regression-issue-74839"], hasEntrypoint: true },
  "busybox": { command: ["sh"], hasEntrypoint: false },
  "glibc-dns-testing": { command: ["sh"], hasEntrypoint: false },
  "distroless-iptables": { command: ["sh"], hasEntrypoint: false },
};

/** The images that the tests name, as far as they can be made; none without the tests. */
export async function e2eImages(programs: string): Promise<readonly Image[]> {
  if (!existsSync(`${programs}/e2e.test`)) return [];
  const { stdout } = await new Deno.Command(`${programs}/e2e.test`, { args: ["--list-images"] }).output();
  return new TextDecoder().decode(stdout).split("\n").flatMap((name) => {
    const kind = COMMANDS[name.replace(/^.*\/|:.*$/g, "")];
    return kind === undefined ? [] : [{ name, ...kind }];
  });
}

/** A report of ginkgo, as far as it is read (its `types.Report`). */
interface Report {
  readonly SpecReports: readonly Spec[] | null;
}

interface Spec {
  readonly LeafNodeType: string;
  readonly LeafNodeText: string;
  readonly ContainerHierarchyTexts: readonly string[] | null;
  readonly State: string;
  /** In nanoseconds. */
  readonly RunTime: number;
  readonly Failure?: { readonly Message: string };
}

/** Runs the tests with the proxy that runs. */
export async function testE2e({ cluster, focus = FOCUS }: Trial): Promise<PartOutcome> {
  const { programs, folder, plane } = cluster;
  await startDns(cluster);
  const output = await Deno.makeTempDir({ dir: folder, prefix: "e2e-" });
  const log = `${output}/output`;
  const suite = [
    ...[`${programs}/e2e.test`, "--", `--kubeconfig=${plane.kubeconfig}`, "--provider=local", "--num-nodes=3"],
    `--kubectl-path=${programs}/kubectl`,
  ];
  const options = [
    ...[`--nodes=${AT_ONCE}`, "--no-color", `--timeout=${LIMIT_S}s`, `--focus=${focus}`, `--skip=${SKIP}`],
    ...["--json-report=report.json", `--output-dir=${output}`],
  ];
  await new Deno.Command("sh", {
    args: ["-c", 'exec "$@" > "$0" 2>&1', log, `${programs}/ginkgo`, ...options, ...suite],
    cwd: output,
    stdin: "null",
  }).output();
  if (!existsSync(`${output}/report.json`)) throw new Error(`the tests left no report: see ${log}`);
  const reports = JSON.parse(Deno.readTextFileSync(`${output}/report.json`)) as readonly Report[];
  const specs = reports.flatMap(({ SpecReports }) => SpecReports ?? [])
    .filter(({ LeafNodeType, State }) => LeafNodeType === "It" && !["skipped", "pending"].includes(State));
  return {
    counts: {},
    results: specs.map(({ ContainerHierarchyTexts, LeafNodeText, State, RunTime, Failure }) => {
      const name = [...ContainerHierarchyTexts ?? [], LeafNodeText].join(" ");
      if (State !== "passed") console.log(`${State.toUpperCase()} ${name}: ${Failure?.Message.trim().split("\n")[0]}`);
      return { name, unit: name, passed: State === "passed", tookMs: RunTime / 1e6 };
    }),
  };
}

/** Starts the cluster's DNS server outside of the nodes, behind a Service without a selector, unless it runs. */
async function startDns(cluster: Cluster): Promise<void> {
  const { plane } = cluster;
  const metadata = { namespace: "kube-system", name: "kube-dns" };
  if ((await plane.request("GET", "/api/v1/namespaces/kube-system/services/kube-dns")).status === 200) return;
  const corefile = `${cluster.folder}/Corefile`;
  Deno.writeTextFileSync(
    corefile,
    `.:53 {
  errors
  kubernetes cluster.local in-addr.arpa ip6.arpa {
    kubeconfig ${plane.kubeconfig}
    ttl 1
  }
}
`,
  );
  plane.start("coredns", ["-conf", corefile]);
  await waitFor("the DNS server listens", LISTENS_WITHIN_MS, async () => {
    const connection = await Deno.connect({ hostname: OUTSIDE.IPv4, port: 53 }).catch(() => undefined);
    connection?.close();
    return connection !== undefined;
  }, 100);
  const ports = ["UDP", "TCP"].map((protocol) => ({ name: protocol.toLowerCase(), port: 53, protocol }));
  await create(cluster, { apiVersion: "v1", kind: "Service", metadata, spec: { clusterIP: DNS_ADDRESS, ports } });
  await create(cluster, {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { ...metadata, name: "kube-dns-1", labels: { "kubernetes.io/service-name": "kube-dns" } },
    addressType: "IPv4",
    endpoints: [{ addresses: [OUTSIDE.IPv4], conditions: { ready: true } }],
    ports,
  });
}
