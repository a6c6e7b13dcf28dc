/** `error`: something is not served, or will be out of date. `warning`: everything is served, with a loss or a risk. */
type Severity = "error" | "warning";

/** The kind of subject of a problem. */
type Subject =
  | "IP family"
  | "service port"
  | "endpoint"
  | "Service"
  | "object"
  | "file"
  | "kernel setting"
  | "node"
  | "host"
  | "tool"
  | "program"
  | "API resource"
  | "API server"
  | "server"
  | "permission";

/** One kind of problem: everything about it that does not depend on the occurrence. */
export interface ProblemKind {
  readonly severity: Severity;
  readonly about: Subject;
  /** One line, without the occurrence's own details. */
  readonly title: string;
  /** The fix for an administrator. */
  readonly fix: string;
  /** The reason of the Kubernetes Event that reports it; absent if no Event does. */
  readonly event?: string;
  /** Whether `sluice check` alone finds it: a running proxy never reports it. */
  readonly checkOnly?: true;
}

const error = (about: Subject) => ({ severity: "error", about }) as const;
const warning = (about: Subject) => ({ severity: "warning", about }) as const;

/**
 * The problems of a running proxy, by their codes. Codes are stable: alerts, scripts and documents refer to them. The
 * log, the status page, `sluice top`, Events, metrics and `sluice check` use this wording, and docs/problems.md lists
 * the same table.
 */
const PROBLEMS = {
  // Programming the kernel.
  "setup-failed": {
    ...error("IP family"),
    title: "the tools or the kernel are not ready for this IP family",
    fix: "run `sluice check`, which names the missing tool, module or permission; Sluice keeps retrying",
    event: "CannotBeServed",
  },
  "family-unsupported": {
    ...warning("IP family"),
    title: "this host does not support the IP family",
    fix: "no action if the cluster does not use the family; otherwise install what is missing (see the detail)",
  },
  "worker-failed": {
    ...error("IP family"),
    title: "the worker died and is being restarted",
    fix: "no action if it happens once; otherwise look for the reason in the log (low memory is the most common)",
    event: "WorkerRestarted",
  },
  "sync-failed": {
    ...error("IP family"),
    title: "changes of services do not reach the kernel",
    fix: "run `sluice check`; the detail is the tool's own message; Sluice keeps retrying",
    event: "FailedToSync",
  },
  "tool-killed": {
    ...error("tool"),
    title: "a tool is killed by a signal before it finishes",
    fix: "do what the detail says. SIGKILL: the node is short of memory. Otherwise install another version of the tool",
    event: "ToolKilled",
  },
  "changes-overdue": {
    ...error("IP family"),
    title: "changes of services, or a comparison with the kernel, take longer than 5 s",
    fix:
      "check the load of the node; look for a stopped `nft` or `iptables-restore`, and for a program that holds the xtables lock; after two sync periods, /healthz answers 503",
    event: "ChangesOverdue",
  },
  "rules-refused": {
    ...error("service port"),
    title: "the kernel refuses the rules of a service port, or they are not written in time",
    fix:
      "correct what the detail names, or make the Service smaller if nft did not end in time; it is retried when it changes and at a later comparison",
    event: "ServiceNotProgrammed",
  },
  "not-relayed": {
    ...error("service port"),
    title: "the relay cannot listen for a service port",
    fix: "do what the detail says; it is retried at every change",
    event: "ServiceNotProgrammed",
  },
  "stale-flows-kept": {
    ...warning("IP family"),
    title: "stale UDP flows were not removed",
    fix: "install conntrack (Debian package: conntrack), and check that the proxy's user can run it",
  },
  "rules-changed-by-others": {
    ...error("IP family"),
    title:
      "the rules of services differ at every comparison: another program changes them, or a tool does not write them",
    fix: "stop the other proxy; `sluice check` looks for them; if there is none, install the tool's package again",
  },
  "leftovers-kept": {
    ...warning("IP family"),
    title: "rules of another mode were not removed",
    fix: "run `sluice check`, which lists them; Sluice retries with every comparison",
  },
  "kernel-setting-failed": {
    ...warning("kernel setting"),
    title: "a kernel setting cannot be read or set, and keeps its value",
    fix: "run `sysctl` as the proxy's user to see the error; set the value in /etc/sysctl.d if a container may not",
  },

  // The cluster's objects.
  "object-invalid": {
    ...warning("object"),
    title: "parts of an object cannot be used and are ignored",
    fix: "correct the fields that the detail names",
  },
  "object-duplicated": {
    ...warning("file"),
    title: "an object is defined twice; the first definition counts",
    fix: "remove one of the two definitions",
  },
  "frontend-conflict": {
    ...error("service port"),
    title: "another service port has the same frontend and keeps it",
    fix: "give one of the two another address or port",
  },
  "balance-ignored": {
    ...warning("Service"),
    title: "a balancing annotation has no effect",
    fix: "correct the annotation that the detail names; docs/balance.md lists what each mode can do",
    event: "BalanceIgnored",
  },
  "balance-limited": {
    ...warning("Service"),
    title: "a service is balanced at random, because its table would be too large for the kernel",
    fix: "give it fewer ports, external addresses or endpoints, or no balancing annotation (docs/balance.md)",
  },
  "node-port-addresses-invalid": {
    ...warning("Service"),
    title: "the annotation that limits node ports to some addresses has invalid or too many entries, which are ignored",
    fix:
      "list at most 32 IP addresses and CIDRs, separated by commas, in the annotation that the detail names (docs/node-ports.md)",
    event: "NodePortAddressesInvalid",
  },
  "health-check-port-closed": {
    ...error("Service"),
    title: "a health check node port cannot be opened",
    fix: "free the port, or let the Service get another healthCheckNodePort; Sluice retries every 5 s",
    event: "FailedToStartServiceHealthcheck",
  },

  // This node.
  "node-missing": {
    ...error("node"),
    title: "there is no Node object of this name, so /healthz answers 503, and zone and addresses are unknown",
    fix: "set this node's name by --hostname-override or hostnameOverride",
    event: "NodeNotFound",
  },
  "node-deleted": {
    ...error("node"),
    title: "this node's Node object was deleted; its last state stays in effect",
    fix: "restart the kubelet to register the node again, or stop Sluice if the node has left the cluster",
  },
  "pod-cidr-missing": {
    ...error("node"),
    title: "the first sync waits for this node's pod CIDR: detectLocalMode is NodeCIDR, and spec.podCIDRs is empty",
    fix: "run kube-controller-manager with --allocate-node-cidrs, or set another detectLocalMode",
  },
  "node-ports-closed": {
    ...error("node"),
    title: "node ports are served on no address that other hosts reach, since no primary address is known",
    fix: "give the Node an address of the family, set bindAddress, or list prefixes in nodePortAddresses",
  },
  "open-files-limited": {
    ...warning("host"),
    title: "the limit of open files is low or unknown",
    fix: "set LimitNOFILE=65536 in the unit (as in deploy/sluice.service), or raise the container runtime's limit",
  },
  "oom-score-refused": {
    ...warning("host"),
    title: "oomScoreAdj is not in effect: if memory is short, the kernel may end Sluice before other programs",
    fix:
      "set OOMScoreAdjust= in the unit to the value of oomScoreAdj (as in deploy/sluice.service), or give the process CAP_SYS_RESOURCE",
  },

  // The source and the servers.
  "source-unreachable": {
    ...error("API resource"),
    title: "the source cannot be read; what was read before stays in effect",
    fix:
      "do what the detail says; otherwise check that the server runs, its log, and that this node reaches it without a service proxy; Sluice keeps retrying",
  },
  "api-unreachable": {
    ...error("API server"),
    title: "the API server cannot be reached; what was read before stays in effect",
    fix:
      "check that the server runs, and that this node reaches its address without a service proxy (clientConnection.kubeconfig, --master); a changed kubeconfig is read again with every attempt",
  },
  "api-slow": {
    ...error("API server"),
    title: "the API server does not answer in time; what was read before stays in effect",
    fix:
      "check the load of the server, and the network to it: a firewall that drops packets looks the same; Sluice keeps retrying",
  },
  "api-certificate-expired": {
    ...error("API server"),
    title:
      "a certificate for the connection to the API server has expired or is not valid yet; what was read before stays in effect",
    fix:
      "renew the certificate that the detail names, or correct this node's clock; files are read again with every attempt",
  },
  "api-certificate-untrusted": {
    ...error("API server"),
    title: "a certificate for the connection to the API server is not trusted; what was read before stays in effect",
    fix:
      "correct certificate-authority, or client-certificate and client-key, in the kubeconfig; it is read again with every attempt",
  },
  "api-unauthorized": {
    ...error("API server"),
    title: "the API server does not accept this node's credentials (401); what was read before stays in effect",
    fix:
      "replace the token or client certificate of the kubeconfig (`sluice kubeconfig` makes one); it is read again with every attempt",
  },
  "api-forbidden": {
    ...error("API server"),
    title: "the API server forbids a request (403); what was read before stays in effect",
    fix: "grant the verb and resource that the detail names: deploy/rbac.yaml, or the cluster role system:node-proxier",
  },
  "file-unreadable": {
    ...error("file"),
    title: "a file or folder of the source cannot be read; what was read before stays in effect",
    fix:
      "restore or correct what the line names; it is read again when it changes. To serve nothing, leave the folder empty",
  },
  "server-not-listening": {
    ...error("server"),
    title: "a server cannot listen on its address",
    fix: "stop the program that holds the port, or set another healthzBindAddress or metricsBindAddress",
  },
  "state-not-kept": {
    ...warning("file"),
    title:
      "the state of the cluster cannot be written to disk, so a start without the server uses an older one or none",
    fix: "free disk space, or correct --state-directory or the permissions of its folder; see the detail",
  },
  "state-untrusted": {
    ...warning("file"),
    title: "another user could have written the kept state, so it is neither read nor written",
    fix: "delete the state file unless you trust it, then give it and its folder to root with modes 0600 and 0700",
  },
  "runtime-unreachable": {
    ...warning("server"),
    title: "the container runtime cannot be asked for the pods of this node; kept endpoints keep their addresses",
    fix:
      "check that the runtime runs, that it has CRI version v1 (containerd 1.6, CRI-O 1.20 or later), and that --container-runtime-endpoint is " +
      "its socket, as in the kubelet's configuration; Sluice keeps retrying until the API server answers",
  },
  "control-socket-closed": {
    ...warning("file"),
    title: "there is no control socket: explain, get, diff and top cannot query this proxy",
    fix: "correct the path in --control-socket, or the permissions of its folder, and restart Sluice",
  },
  "configuration-invalid": {
    ...error("file"),
    title: "the configuration is invalid; a running proxy keeps the one in effect",
    fix: "correct the file; it is read again when it changes",
    event: "InvalidConfiguration",
  },
  "configuration-ignored": {
    ...warning("file"),
    title: "parts of the configuration are ignored or deprecated",
    fix: "correct or remove the fields and flags that the detail names",
  },
  "restart-needed": {
    ...warning("file"),
    title: "changed settings are not in effect before a restart",
    fix: "restart Sluice (`systemctl restart sluice`): rules and connections stay",
  },
} as const satisfies Readonly<Record<string, ProblemKind>>;

/** The problems that only `sluice check` finds. */
const FOUND_BY_CHECK = {
  "tool-missing": {
    ...error("tool"),
    title: "a tool that the mode needs is not installed, or too old",
    fix: "install the package that provides it, or a newer version (docs/versions.md)",
  },
  "optional-tool-missing": {
    ...warning("tool"),
    title: "an optional tool is not installed or too old, so one function is unavailable",
    fix: "install the package that provides it, or a newer version (docs/versions.md)",
  },
  "not-root": {
    ...warning("host"),
    title: "the check does not run as root and may see less than the proxy will",
    fix: "run sudo sluice check",
  },
  "kernel-permission-missing": {
    ...error("permission"),
    title: "this process may not change the kernel's rules",
    fix: "run it as root, or with the capability CAP_NET_ADMIN (CAP_NET_RAW as well for iptables-legacy)",
  },
  "kernel-unfit": {
    ...error("host"),
    title: "the kernel cannot serve the mode in either IP family",
    fix: "set another --proxy-mode, or boot a kernel that has the missing modules",
  },
  "modules-missing": {
    ...warning("host"),
    title: "kernel modules of the mode are missing, or cannot be checked",
    fix: "install the package with your kernel's modules, or reboot into the kernel that they are for",
  },
  "other-proxy": {
    ...error("program"),
    title: "another service proxy runs on this node: the two overwrite each other's rules",
    fix: "stop one of them (docs/migrate.md)",
  },
  "possible-other-proxy": {
    ...warning("program"),
    title: "another program may act as a service proxy",
    fix: "disable its service proxy, or do not run Sluice on this node",
  },
  "port-taken": {
    ...warning("server"),
    title: "a port that the proxy needs is in use",
    fix: "stop the program that holds it, or set healthzBindAddress or metricsBindAddress to another port",
  },
  "other-rules": {
    ...warning("host"),
    title: "the kernel has rules of another proxy or mode, or they cannot be read",
    fix: "run sluice --cleanup, which removes those of other modes",
  },
  "connections-dropped-by-others": {
    ...warning("host"),
    title: "a chain of another program drops new connections to services",
    fix: "accept connections with a translated destination before that chain drops them (nft: ct status dnat accept)",
  },
  "firewalls-unread": {
    ...warning("host"),
    title: "chains of other programs could not be read, so one that drops connections to services may not be named",
    fix: "run the command as root, and look for such chains in the output of nft list ruleset",
  },
  "mode-differs": {
    ...warning("host"),
    title: "the mode will treat connections differently from the one that this node is in",
    fix: "do what the line says, or nothing if no client depends on the difference (docs/ipvs.md)",
  },
  "conntrack-filling": {
    ...warning("host"),
    title: "the connection tracking table is filling up, or its size is unknown",
    fix: "set a larger conntrack.maxPerCore or conntrack.min in the configuration",
  },
  "conntrack-full": {
    ...error("host"),
    title: "the connection tracking table is full or nearly so: new connections are dropped",
    fix: "set a larger conntrack.maxPerCore or conntrack.min in the configuration",
  },
  "api-unusable": {
    ...error("server"),
    title: "the API server cannot be used",
    fix: "check the logs of the API server and of any proxy in front of it",
  },
  "api-permission-missing": {
    ...error("permission"),
    title: "the API server denies a permission that the proxy needs",
    fix: "bind the ClusterRole system:node-proxier, or that of deploy/rbac.yaml, to the user of the kubeconfig",
  },
  "optional-api-permission-missing": {
    ...warning("permission"),
    title: "the API server denies an optional permission, so one function is unavailable",
    fix: "bind the ClusterRole system:node-proxier, or that of deploy/rbac.yaml, to the user of the kubeconfig",
  },
  "clock-skewed": {
    ...warning("host"),
    title: "the clock differs from the API server's by seconds",
    fix: "run timedatectl set-ntp true, or enable another time service, on both",
  },
  "clock-wrong": {
    ...error("host"),
    title: "the clock differs from the API server's by minutes: certificates and tokens fail",
    fix: "run timedatectl set-ntp true, or enable another time service, on both",
  },
  "certificate-unusable": {
    ...error("file"),
    title: "a certificate, its key or a CA cannot be used",
    fix: "set --listen-tls-crt, --listen-tls-key and --listen-tls-ca to PEM files that belong together",
  },
  "certificate-expiring": {
    ...warning("file"),
    title: "a certificate expires soon",
    fix: "renew it; sluice serve uses changed files for new connections",
  },
  "server-unprotected": {
    ...warning("server"),
    title: "any client that reaches the gRPC server can read the cluster's state",
    fix: "require client certificates with --listen-tls-ca, or listen on loopback or on a unix socket",
  },
} as const satisfies Readonly<Record<string, ProblemKind>>;

/** The problems of features, by code; whoever registers features declares them. */
// deno-lint-ignore no-empty-interface
export interface FeatureProblems {}

/** The stable name of a kind of problem. */
export type ProblemCode = keyof typeof PROBLEMS | keyof typeof FOUND_BY_CHECK | keyof FeatureProblems;

const kinds = new Map<string, ProblemKind>([
  ...Object.entries(PROBLEMS),
  ...Object.entries(FOUND_BY_CHECK).map(([code, kind]) => [code, { ...kind, checkOnly: true }] as const),
]);

/** Adds the problems of a feature. Throws if a code is taken. */
export function registerProblems(problems: Readonly<Record<string, ProblemKind>>): void {
  for (const [code, kind] of Object.entries(problems)) {
    if (kinds.has(code)) throw new Error(`two problems have the code ${code}`);
    kinds.set(code, kind);
  }
}

/** All codes, in the order of the table; codes of features come last. */
export function problemCodes(): readonly ProblemCode[] {
  return [...kinds.keys()] as ProblemCode[];
}

/** Whether a value is the code of a problem. */
export function isProblemCode(value: unknown): value is ProblemCode {
  return typeof value === "string" && kinds.has(value);
}

/** The table's entry of a code, with its optional fields. */
export function problemKind(code: ProblemCode): ProblemKind {
  return kinds.get(code)!;
}

/** Whether a problem says that the source as a whole cannot be read. */
export function isOfSource(code: ProblemCode): boolean {
  return code === "source-unreachable" || problemKind(code).about === "API server";
}

/** Whether a problem says that the source, or one of its files, cannot be read. */
export function isUnreadable(code: ProblemCode): boolean {
  return isOfSource(code) || code === "file-unreadable";
}
