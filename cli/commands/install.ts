/** `sluice install` and `sluice uninstall`. */
import { manualText } from "./about.ts";
import type { Command, Invocation } from "./command.ts";
import type { InstallationRecord, InstalledFile, Step, Wanted } from "../installation/mod.ts";
import { boolean, type CommandSpec, flagValue, option, RUN_FLAGS, text } from "../../config/mod.ts";
import { readBuild, runsFromSource, shippedText, writeToStderr } from "../../platform/mod.ts";

/** Flag of install and uninstall: an alternative root folder. */
const ROOT_FLAG = option("root", text(), "Root folder to use instead of /, for example of a mounted image.");

const PATH_FLAGS = ["kubeconfig", "api-client-tls-ca", "api-client-tls-crt", "api-client-tls-key"];

/** Flag of install and uninstall: print the steps only. */
export const DRY_RUN_FLAG = option("dry-run", boolean(), "Print what would be done without doing it.");

const FORCE_FLAG = option(
  "force",
  boolean(),
  "Replace an installed configuration that differs from these flags; the old one is kept as config.yaml.DATE.",
);

/** `sluice install`. */
export const installCommand: Command = {
  name: "install",
  summary: "Install this executable as a service of this node, or upgrade it: program, service, configuration.",
  flags: [
    ROOT_FLAG,
    DRY_RUN_FLAG,
    FORCE_FLAG,
    option(
      "now",
      boolean(),
      "Also enable the service at boot, start or restart it unless a check is red, and wait until everything is in effect.",
    ),
  ],
  examples: {
    "sluice install --kubeconfig /etc/sluice/kubeconfig --cluster-cidr 10.244.0.0/16":
      "writes the flags to /etc/sluice/config.yaml",
    "sluice install --config kube-proxy.yaml --now": "use kube-proxy's configuration and start the service",
    "sluice install --now": "by a newer executable: upgrade to it and keep the configuration",
    "sluice install --root /mnt/image --proxy-mode nftables": "install into the image of a node",
  },
  startsPrograms: true,
  async start(invocation) {
    const { commands, flags, print, clock } = invocation;
    if (runsFromSource()) {
      throw new Error("cannot install when running from source (build the executable with ./compile.sh first)");
    }
    const { root, dryRun } = targetOf(invocation);
    const { install, PROGRAM, readRecord } = await import("../installation/mod.ts");
    const wanted = await wantedOf(invocation, root);
    if (wanted.difference !== "" && flagValue(flags, FORCE_FLAG) !== true) {
      writeToStderr(
        "sluice install: the installed configuration differs from these flags; nothing was changed:\n\n" +
          `${wanted.difference}\nReplace it with --force, which keeps a copy; keep it by leaving out the flags; or edit the file ` +
          "yourself.\n",
      );
      return 1;
    }
    const files: InstalledFile[] = [
      { path: PROGRAM, mode: 0o755, content: { copyOf: Deno.execPath() }, replacement: "always" },
      ...wanted.files,
      ...await helpersOf(commands),
    ];
    const before = readRecord(root);
    const steps = await install(files, root, dryRun, clock.now());
    const isUpgrade = steps.some(({ path, decision }) => path === PROGRAM && decision === "replace");
    print((isUpgrade ? upgradeText(before) : "") + stepsText(steps, root, dryRun));
    if (root !== "" || dryRun) {
      print(
        `\nNode checks skipped: ${dryRun ? "this is a dry run" : `they apply to the system that runs in ${root}`}.\n`,
      );
      return 0;
    }
    const { checkAndStart } = await import("./install_start.ts");
    return await checkAndStart(invocation, wanted);
  },
};

function upgradeText(before: InstallationRecord | undefined): string {
  const text = ({ version, commit }: Pick<InstallationRecord, "version" | "commit">) =>
    commit === undefined ? version : `${version} (commit ${commit.slice(0, 12)})`;
  return `Upgrade from Sluice ${before === undefined ? "of unknown version" : text(before)} to ${text(readBuild())}\n`;
}

/** The root folder without a trailing slash, empty for /. Throws an Error if changing / without being root. */
function targetOf({ flags }: Invocation): { readonly root: string; readonly dryRun: boolean } {
  const root = (flagValue(flags, ROOT_FLAG) ?? "").replace(/\/+$/, "");
  const dryRun = flagValue(flags, DRY_RUN_FLAG) === true;
  if (root !== "" || dryRun || Deno.uid() === 0) return { root, dryRun };
  throw new Error("cannot write to /usr/local, /etc and /var/lib: not root (run with sudo, or try --dry-run)");
}

const DECISIONS: Readonly<Record<Step["decision"], readonly [done: string, planned: string]>> = {
  write: ["wrote", "would write"],
  replace: ["replaced", "would replace"],
  same: ["unchanged", "unchanged"],
  keep: ["kept", "would keep"],
  remove: ["removed", "would remove"],
};

function stepsText(steps: readonly Step[], root: string, dryRun: boolean): string {
  const words = (decision: Step["decision"]) => DECISIONS[decision][dryRun ? 1 : 0];
  const width = Math.max(...Object.values(DECISIONS).map((words) => words[dryRun ? 1 : 0].length));
  return steps.map(({ path, decision, backup }) => {
    const note = decision === "keep"
      ? " (your edited file)"
      : backup === undefined
      ? ""
      : ` (the old one: ${root}${backup})`;
    return `${words(decision).padEnd(width)}  ${root}${path}${note}\n`;
  }).join("");
}

async function wantedOf({ flags }: Invocation, root: string): Promise<Wanted> {
  const { resolve } = await import("node:path");
  const { CONFIGURATION, serviceManagerIn, wantedInstallation } = await import("../installation/mod.ts");
  const given = new Map(flags);
  for (const name of PATH_FLAGS) {
    const path = flags.get(name);
    if (typeof path === "string" && path !== "") given.set(name, resolve(path));
  }
  const source = /^(file|state):(.+)$/s.exec(flagValue(flags, RUN_FLAGS.source) ?? "");
  if (source) given.set("source", `${source[1]}:${resolve(source[2]!)}`);
  const template = flagValue(flags, RUN_FLAGS.config);
  return wantedInstallation(
    root,
    // An empty folder becomes a package or an image, for systemd.
    serviceManagerIn(root) ?? (root === "" ? undefined : "systemd"),
    given,
    template === undefined || resolve(template) === root + CONFIGURATION ? undefined : Deno.readTextFileSync(template),
    shippedText("config.yaml"),
  );
}

/** Returns completions and the man page, in the folders for software that is not from a package. */
async function helpersOf(commands: readonly CommandSpec[]): Promise<readonly InstalledFile[]> {
  const { completionScript } = await import("../manual/mod.ts");
  const { textFile } = await import("../installation/mod.ts");
  return [
    textFile("/usr/local/share/man/man8/sluice.8", await manualText(commands)),
    textFile("/usr/local/share/bash-completion/completions/sluice", completionScript("bash", commands)),
    textFile("/usr/local/share/zsh/site-functions/_sluice", completionScript("zsh", commands)),
    textFile("/usr/local/share/fish/vendor_completions.d/sluice.fish", completionScript("fish", commands)),
  ];
}

/** `sluice uninstall`. */
export const uninstallCommand: Command = {
  name: "uninstall",
  summary: "Remove installed files, except those edited since; with --cleanup, the rules too.",
  flags: [
    ROOT_FLAG,
    DRY_RUN_FLAG,
    option("now", boolean(), "Also stop and disable the service."),
    option("all", boolean(), "Also remove edited files."),
  ],
  withoutSource: true,
  installed: { part: "socket", unless: ["root"] },
  examples: {
    "sluice uninstall --now --cleanup":
      "remove the service, its files and its rules; nothing serves the cluster's services then",
    "sluice uninstall --dry-run": "show which files would be removed and which kept",
  },
  startsPrograms: true,
  async start(invocation) {
    const { flags, print, configuration } = invocation;
    const { root, dryRun } = targetOf(invocation);
    const actsHere = root === "" && !dryRun;
    const { serviceHere } = await import("./service.ts");
    const service = await serviceHere(invocation);
    if (actsHere && flags.get("now") === true) await service?.stop();
    if (actsHere && await isRunning(invocation)) {
      const how = service === undefined || flags.get("now") === true
        ? "stop it first: it does not run as a service of systemd or OpenRC"
        : "sluice uninstall --now stops its service first";
      throw new Error(`the proxy is still running (${how})`);
    }
    const { leftBehind, uninstall } = await import("../installation/mod.ts");
    const steps = await uninstall(root, dryRun, flags.get("all") === true);
    print(stepsText(steps, root, dryRun));
    if (steps.some(({ decision }) => decision === "keep")) {
      print("Edited files are kept; --all removes them too.\n");
    }
    const left = dryRun ? [] : leftBehind(root);
    if (left.length > 0) print(`Remaining files: ${left.join(", ")}\n`);
    if (!actsHere) return 0;
    if (!configuration.cleanup) {
      print(
        "The rules stay in the kernel and keep serving the last known state. kube-proxy takes them over, except the tables of " +
          "nftables mode: once it serves all services, delete them with a copy of this program (sluice --cleanup --only-own), " +
          "or with nft delete table ip sluice; nft delete table ip6 sluice.\n",
      );
      return 0;
    }
    const { runCommand } = await import("./run.ts");
    const status = await runCommand.start(invocation);
    if (status === 0) {
      print("Rules removed. Nothing serves the cluster's services on this node until another proxy starts.\n");
    }
    return status;
  },
};

async function isRunning({ configuration: { controlSocket }, clock, signal }: Invocation): Promise<boolean> {
  if (controlSocket === undefined) return false;
  const { connectToProxy, NoProxyError } = await import("../../answers/control/mod.ts");
  try {
    await connectToProxy(controlSocket, { clock, signal });
    return true;
  } catch (error) {
    return !(error instanceof NoProxyError);
  }
}
