/** Sluice in the lab's node, watching the lab's API server. */
import { program } from "../../demo/sluice.ts";
import { NETWORK } from "../../demo/lab.ts";
import type { ProxyMode } from "../../core/model/mod.ts";
import { API_LINK, type ChaosLab } from "./lab.ts";

/** Options of the Sluice to start. */
export interface SluiceOptions {
  readonly mode: ProxyMode;
  readonly minSyncPeriod?: string;
  readonly syncPeriod?: string;
  /** The soft and the hard limit of open files. */
  readonly openFiles?: readonly [soft: number, hard: number];
  /** A folder to put first on the PATH. */
  readonly toolsFirst?: string;
  /** Ranges whose addresses serve node ports and health checks; the mode's default if not given. */
  readonly nodePortAddresses?: readonly string[];
  /** Fields of the kubeconfig's cluster, added to or replacing the lab's. */
  readonly cluster?: Readonly<Record<string, unknown>>;
  /** Fields of the kubeconfig's user; none by default. */
  readonly user?: Readonly<Record<string, unknown>>;
  /** The folder of the kept state; none by default. */
  readonly stateDirectory?: string;
  /** The socket of the container runtime; none by default. */
  readonly runtimeSocket?: string;
  /** Additional environment variables. */
  readonly env?: Readonly<Record<string, string>>;
  /** Fields of the configuration file, added to or replacing the lab's. */
  readonly fields?: Readonly<Record<string, unknown>>;
}

/** A running Sluice. */
export interface ChaosSluice {
  readonly pid: number;
  /** The configuration file. */
  readonly config: string;
  /** Standard error so far. */
  log(): string;
  /** Sends a signal and waits for the process to exit. */
  end(signal: "SIGKILL" | "SIGTERM"): Promise<void>;
}

const METRICS_PORT = 10249;

/** The metrics endpoint. */
export const METRICS_URL = `http://${API_LINK.node}:${METRICS_PORT}/metrics`;

/** Starts Sluice. */
export async function startSluice(lab: ChaosLab, options: SluiceOptions): Promise<ChaosSluice> {
  const { mode, minSyncPeriod = "0s", syncPeriod = "30s", toolsFirst, openFiles, env, cluster, user = {} } = options;
  const { nodePortAddresses, stateDirectory = "", runtimeSocket = "", fields } = options;
  const kubeconfig = `${lab.folder}/kubeconfig.json`, config = `${lab.folder}/config.json`;
  await Deno.writeTextFile(
    kubeconfig,
    JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      "current-context": "lab",
      clusters: [{ name: "lab", cluster: { server: lab.api.url, ...cluster } }],
      users: [{ name: "lab", user }],
      contexts: [{ name: "lab", context: { cluster: "lab", user: "lab" } }],
    }),
  );
  await Deno.writeTextFile(
    config,
    JSON.stringify({
      apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
      kind: "KubeProxyConfiguration",
      mode,
      hostnameOverride: NETWORK.nodeName,
      clientConnection: { kubeconfig },
      clusterCIDR: Object.values(NETWORK.clusterCIDR).join(),
      detectLocalMode: "ClusterCIDR",
      healthzBindAddress: `${API_LINK.node}:10256`,
      metricsBindAddress: `${API_LINK.node}:${METRICS_PORT}`,
      conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: "0s", tcpCloseWaitTimeout: "0s" },
      nodePortAddresses,
      [mode]: { syncPeriod, minSyncPeriod },
      ...fields,
    }),
  );
  const path = Deno.env.get("PATH") ?? "";
  const limited = openFiles ? ["prlimit", `--nofile=${openFiles.join(":")}`] : [];
  const flags = [
    "--config",
    config,
    "--state-directory",
    stateDirectory,
    "--container-runtime-endpoint",
    runtimeSocket,
  ];
  const child = lab.start("node", [...limited, ...program(), ...flags], {
    stdout: "null",
    stderr: "piped",
    env: { ...env, ...(toolsFirst ? { PATH: `${toolsFirst}:${path}` } : {}) },
  });
  let log = "";
  lab.logs.push(() => log);
  const drained = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) log += text;
  })();
  return {
    pid: child.pid,
    config,
    log: () => log,
    async end(signal) {
      child.kill(signal);
      await child.status;
      await drained;
    },
  };
}
