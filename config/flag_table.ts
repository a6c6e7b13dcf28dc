import { MODE_DESCRIPTIONS } from "../backends/mod.ts";
import { FEATURES } from "../features/mod.ts";
import { LOCAL_MODES, LOGGING_FORMATS, PROXY_MODES } from "./configuration.ts";
import { boolean, fieldAt, integer, quantity, text } from "../platform/schema/mod.ts";
import type { Flag, FlagGroup } from "./command_spec.ts";
import { FIELDS, HEALTHZ_PORT, METRICS_PORT, type SettingPath } from "./kube_proxy_configuration.ts";
import { RUN_FLAGS as RUN } from "./run_flags.ts";

type Setting = SettingPath | ((mode: string) => SettingPath);
type Rows = Readonly<Record<string, readonly [Setting, string, Partial<Flag>?]>>;

/** Flags that set a field of the configuration file: each with the field's path and the flag's description. */
function settings(rows: Rows, common?: Partial<Flag>): readonly Flag[] {
  return Object.entries(rows).map(([name, [path, description, options]]): Flag => {
    const setting = typeof path === "string" ? () => path : path;
    const { field } = fieldAt(FIELDS, setting(""));
    if (field.kind === "section" || field.kind === "sections") throw new Error("a flag sets one value, not a section");
    return { name, field, description, setting, besideConfig: false, effective: true, ...common, ...options };
  });
}

/** Flags of kube-proxy without an effect here, of its logging library for example. */
function withoutEffect(field: Flag["field"], names: string): readonly Flag[] {
  const flag = { field, description: COMPATIBILITY, besideConfig: true, effective: false };
  return names.split(" ").map((name) => ({ ...flag, name }));
}

function group(title: string, ...flags: readonly Flag[]): FlagGroup {
  return { title, flags };
}

const COMPATIBILITY = "Accepted for compatibility with kube-proxy; has no effect.";
const BESIDE_CONFIG = { besideConfig: true } as const;

/** A setting that nftables mode has in its own section; kube-proxy has one flag for both. */
const unlessNftables = (iptables: SettingPath, nftables: SettingPath) => (mode: string) => {
  const chosen = MODE_DESCRIPTIONS.find(({ name }) => name === mode);
  return chosen?.settings.masqueradeSection === "nftables" ? nftables : iptables;
};

/** All flags in groups, in the order of the help. Names and meanings are kube-proxy's (cmd/kube-proxy/app). */
export const FLAG_GROUPS: readonly FlagGroup[] = [
  group("Configuration", RUN.config, RUN.strictConfig, RUN.writeConfigTo, RUN.initOnly, RUN.cleanup),
  group(
    "Source of services",
    ...[RUN.source, RUN.local, RUN.tlsCa, RUN.tlsCrt, RUN.tlsKey, RUN.maxMessageBytes],
    ...settings({
      "kubeconfig": [
        "clientConnection.kubeconfig",
        "The kubeconfig file; by default, the pod's service account is used.",
      ],
    }),
    ...[RUN.serviceProxyName, RUN.stateDirectory, RUN.stateDelayMs, RUN.runtimeEndpoint, RUN.master],
    ...settings({
      "hostname-override": ["hostnameOverride", "The node name to use instead of the host name.", BESIDE_CONFIG],
    }),
  ),
  group(
    "Mode and addresses",
    ...settings({
      "proxy-mode": ["mode", "The proxy mode; iptables by default.", { values: PROXY_MODES }],
      "bind-address": ["bindAddress", "Overrides this node's primary IP address; nothing is bound to it."],
      "healthz-bind-address": [
        "healthzBindAddress",
        `The IP:port of the health server; 0.0.0.0:${HEALTHZ_PORT} by default.`,
      ],
      "metrics-bind-address": [
        "metricsBindAddress",
        `The IP:port of the metrics server; 127.0.0.1:${METRICS_PORT} by default, empty to disable it.`,
      ],
      "bind-address-hard-fail": ["bindAddressHardFail", "Exit if one of these ports cannot be bound."],
    }),
    ...[RUN.healthzPort, RUN.metricsPort],
    ...settings({
      "nodeport-addresses": [
        "nodePortAddresses",
        "The CIDRs of the addresses that serve node ports, and the keywords primary, localhost and all.",
      ],
      "feature-gates": ["featureGates", "kube-proxy's feature gates; a warning names those without effect."],
      "oom-score-adj": ["oomScoreAdj", "The oom-score-adj of the process, -1000 to 1000."],
    }),
    RUN.controlSocket,
  ),
  group(
    "Detecting local traffic",
    ...settings({
      "detect-local-mode": [
        "detectLocalMode",
        "How to detect traffic of local pods: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix.",
        { values: LOCAL_MODES },
      ],
      "cluster-cidr": [
        "clusterCIDR",
        "The CIDR of the pods, or one of each family separated by a comma, for ClusterCIDR.",
      ],
      "pod-bridge-interface": ["detectLocal.bridgeInterface", "The bridge interface of the pods, for BridgeInterface."],
      "pod-interface-name-prefix": [
        "detectLocal.interfaceNamePrefix",
        "The prefix of the pods' interface names, for InterfaceNamePrefix.",
      ],
    }),
  ),
  group(
    "Kernel rules",
    ...settings({
      "masquerade-all": [
        unlessNftables("iptables.masqueradeAll", "nftables.masqueradeAll"),
        "Masquerade all traffic to cluster IPs.",
      ],
      "iptables-masquerade-bit": [
        "iptables.masqueradeBit",
        "The bit of the packet mark that requests masquerading, 0 to 31.",
      ],
      "iptables-localhost-nodeports": [
        "iptables.localhostNodePorts",
        "Serve node ports on 127.0.0.1 (iptables mode, IPv4).",
      ],
      "iptables-sync-period": [
        unlessNftables("iptables.syncPeriod", "nftables.syncPeriod"),
        "How often to check the kernel's rules; greater than 0.",
      ],
      "iptables-min-sync-period": [
        unlessNftables("iptables.minSyncPeriod", "nftables.minSyncPeriod"),
        "The minimum time between two syncs; 0, the default, adapts it to their duration.",
      ],
    }),
  ),
  group("Features", ...FEATURES.flatMap(({ flags }) => settings(flags as Rows, BESIDE_CONFIG))),
  group(
    "IPVS mode",
    ...settings({
      "ipvs-sync-period": ["ipvs.syncPeriod", "How often to check the kernel's virtual servers; greater than 0."],
      "ipvs-min-sync-period": [
        "ipvs.minSyncPeriod",
        "The minimum time between two syncs in ipvs mode; 0, the default, adapts it to their duration.",
      ],
      "ipvs-scheduler": ["ipvs.scheduler", "The IPVS scheduler; rr by default."],
      "ipvs-exclude-cidrs": ["ipvs.excludeCIDRs", "The CIDRs of virtual servers to leave alone."],
      "ipvs-strict-arp": ["ipvs.strictARP", "Enable strict ARP: set arp_ignore to 1 and arp_announce to 2."],
      "ipvs-tcp-timeout": ["ipvs.tcpTimeout", "The timeout of idle TCP connections; 0 leaves it unchanged."],
      "ipvs-tcpfin-timeout": [
        "ipvs.tcpFinTimeout",
        "The timeout of TCP connections after a FIN; 0 leaves it unchanged.",
      ],
      "ipvs-udp-timeout": ["ipvs.udpTimeout", "The timeout of UDP packets; 0 leaves it unchanged."],
    }),
  ),
  group(
    "Connection tracking",
    ...settings({
      "conntrack-max-per-core": [
        "conntrack.maxPerCore",
        "The maximum number of tracked connections per core; 0 leaves the limit unchanged.",
      ],
      "conntrack-min": ["conntrack.min", "The minimum for the number of tracked connections."],
      "conntrack-tcp-timeout-established": [
        "conntrack.tcpEstablishedTimeout",
        "The timeout of idle TCP connections; 0 leaves it unchanged.",
      ],
      "conntrack-tcp-timeout-close-wait": [
        "conntrack.tcpCloseWaitTimeout",
        "The timeout of TCP connections in CLOSE_WAIT.",
      ],
      "conntrack-tcp-be-liberal": ["conntrack.tcpBeLiberal", "Treat out-of-window TCP packets as valid."],
      "conntrack-udp-timeout": ["conntrack.udpTimeout", "The timeout of unreplied UDP flows; 0 leaves it unchanged."],
      "conntrack-udp-timeout-stream": [
        "conntrack.udpStreamTimeout",
        "The timeout of assured UDP flows; 0 leaves it unchanged.",
      ],
    }),
  ),
  group(
    "Logging",
    ...settings({
      "v": ["logging.verbosity", "The log verbosity: 0 to 3 is normal, 4 adds details, 6 adds everything.", {
        ...BESIDE_CONFIG,
        letter: "v",
      }],
      "logging-format": ["logging.format", "text or json; by default text on a terminal and json elsewhere.", {
        ...BESIDE_CONFIG,
        values: LOGGING_FORMATS,
      }],
    }),
  ),
  group(
    "Accepted for compatibility, without effect",
    ...settings({
      "kube-api-burst": ["clientConnection.burst", COMPATIBILITY],
      "kube-api-content-type": ["clientConnection.contentType", COMPATIBILITY],
      "kube-api-qps": ["clientConnection.qps", COMPATIBILITY],
      "config-sync-period": ["configSyncPeriod", COMPATIBILITY],
      "profiling": ["enableProfiling", COMPATIBILITY],
      "show-hidden-metrics-for-version": ["showHiddenMetricsForVersion", COMPATIBILITY],
      "log-flush-frequency": ["logging.flushFrequency", COMPATIBILITY, BESIDE_CONFIG],
    }, { effective: false }),
    ...withoutEffect(text(), "boot-id-file log-backtrace-at log-dir log-file machine-id-file stderrthreshold vmodule"),
    ...withoutEffect(quantity(), "log-json-info-buffer-size log-text-info-buffer-size"),
    ...withoutEffect(integer(), "log-file-max-size"),
    ...withoutEffect(boolean(), "add-dir-header alsologtostderr log-json-split-stream log-text-split-stream"),
    ...withoutEffect(boolean(), "logtostderr one-output skip-headers skip-log-headers"),
  ),
];

/** The flags of `run`, which every command accepts. */
export const FLAGS: readonly Flag[] = FLAG_GROUPS.flatMap(({ flags }) => flags);

/** The flags that select the source, which the help of every command lists. */
export const SOURCE_FLAGS: readonly string[] = [
  ...[RUN.source, RUN.local, RUN.tlsCa, RUN.tlsCrt, RUN.tlsKey, RUN.maxMessageBytes],
  ...[RUN.config, RUN.master, RUN.serviceProxyName],
].map(({ name }) => name).concat("kubeconfig", "hostname-override");
