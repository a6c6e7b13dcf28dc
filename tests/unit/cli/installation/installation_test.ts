import assert from "node:assert/strict";
import { dirname } from "node:path";
import { flagsBesideFile, wantedInstallation, withFlags } from "../../../../cli/installation/wanted.ts";
import {
  CONFIGURATION,
  type InstalledFile,
  PACKAGED_UNIT,
  PROGRAM,
  putFile,
  SCRIPT,
  scriptWith,
  serviceManagerIn,
  textFile,
  UNIT,
  unitWith,
  wordsOfScript,
  wordsOfUnit,
} from "../../../../cli/installation/files.ts";
import {
  install,
  leftBehind,
  readRecord,
  RECORD,
  type Step,
  uninstall,
} from "../../../../cli/installation/installation.ts";
import { VERSION } from "../../../../platform/build.ts";
import { accepted } from "../../config/parse.ts";
import { parse } from "../../config/parse.ts";

const DEPLOY = new URL("../../../../deploy/", import.meta.url);
const unit = await Deno.readTextFile(new URL("sluice.service", DEPLOY));
const script = await Deno.readTextFile(new URL("sluice.openrc", DEPLOY));
const configuration = await Deno.readTextFile(new URL("config.yaml", DEPLOY));

/** An empty root, and a program to install there. */
interface Place {
  readonly root: string;
  readonly program: string;
  /** Installs and returns the steps. */
  steps(unit?: string, dryRun?: boolean): Promise<string>;
  /** Installs with the flags of a command line, as the command does; throws with the difference if there is one. */
  withFlags(
    args: readonly string[],
    options?: { readonly force?: boolean; readonly template?: string },
  ): Promise<string>;
}

const NOW = Date.UTC(2026, 0, 31, 12);

async function inRoot(test: (place: Place) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  const program = `${folder}/built`;
  await Deno.writeTextFile(program, "one");
  const root = `${folder}/root`;
  const executable: InstalledFile = {
    path: PROGRAM,
    mode: 0o755,
    content: { copyOf: program },
    replacement: "always",
  };
  const steps = async (text = unit, dryRun = false) => {
    const files = [executable, textFile(UNIT, text), textFile(CONFIGURATION, configuration, "never")];
    return textOf(await install(files, root, dryRun, NOW));
  };
  const installWith: Place["withFlags"] = async (args, { force = false, template } = {}) => {
    const line = parse(args);
    assert(line.kind === "start");
    const { flags } = line;
    const wanted = wantedInstallation(root, "systemd", flags, template, configuration);
    if (wanted.difference !== "" && !force) throw new Error(wanted.difference);
    return textOf(await install([executable, ...wanted.files], root, false, NOW));
  };
  try {
    await test({ root, program, steps, withFlags: installWith });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const textOf = (steps: readonly Step[]) =>
  steps.map(({ path, decision, backup }) => `${decision} ${path}${backup === undefined ? "" : ` (${backup})`}`).join(
    "\n",
  );
const read = (path: string) => Deno.readTextFile(path);

Deno.test("install writes program, unit and configuration with their modes", () =>
  inRoot(async ({ root, steps }) => {
    assert.equal(await steps(), `write ${PROGRAM}\nwrite ${UNIT}\nwrite ${CONFIGURATION}`);
    assert.equal(await read(root + UNIT), unit);
    assert.equal(await read(root + CONFIGURATION), configuration);
    assert.equal((await Deno.stat(root + PROGRAM)).mode! & 0o777, 0o755);
    assert.equal((await Deno.stat(root + UNIT)).mode! & 0o777, 0o644);
    assert.match(
      unit,
      new RegExp(
        `ExecStart=${PROGRAM} --config ${CONFIGURATION} --state-directory ${dirname(RECORD)} --logging-format text$`,
        "m",
      ),
      "the unit has the same paths",
    );
    assert.equal(await steps(), `same ${PROGRAM}\nsame ${UNIT}\nsame ${CONFIGURATION}`);
  }));

Deno.test("a dry run prints the same and writes nothing", () =>
  inRoot(async ({ root, steps }) => {
    assert.match(await steps(unit, true), /^write .*\nwrite .*\nwrite .*$/);
    await assert.rejects(Deno.stat(root), Deno.errors.NotFound);
  }));

Deno.test("a newer program replaces the older one; edited files are kept", () =>
  inRoot(async ({ root, program, steps }) => {
    await steps();
    await Deno.writeTextFile(program, "two");
    await Deno.writeTextFile(root + CONFIGURATION, `${configuration}\n# mine\n`);
    await Deno.writeTextFile(root + UNIT, `${unit}\n# mine\n`);
    assert.equal(await steps(), `replace ${PROGRAM}\nkeep ${UNIT}\nkeep ${CONFIGURATION}`);
    assert.equal(await read(root + PROGRAM), "two");
    assert.match(await read(root + CONFIGURATION), /# mine/);
    assert.equal(readRecord(root)?.version, VERSION);
  }));

Deno.test("an unedited unit is replaced by a newer one; a configuration stays without flags", () =>
  inRoot(async ({ root, steps, withFlags }) => {
    await withFlags(["--proxy-mode=nftables"]);
    assert.match(await steps(`${unit}\n# newer\n`), new RegExp(`replace ${UNIT}\nkeep ${CONFIGURATION}`));
    assert.match(await read(root + CONFIGURATION), /^mode: nftables$/m);
  }));

Deno.test("an upgrade without flags keeps the configuration and the flags in the unit", () =>
  inRoot(async ({ root, program, withFlags }) => {
    await withFlags(["--proxy-mode=nftables", "--source=file:/a b"]);
    await Deno.writeTextFile(program, "two");
    assert.equal(await withFlags([]), `replace ${PROGRAM}\nsame ${UNIT}\nsame ${CONFIGURATION}`);
    assert.deepEqual(wordsOfUnit(await read(root + UNIT)), ["--source=file:/a b"]);
    await Deno.writeTextFile(root + CONFIGURATION, `# mine\n${await read(root + CONFIGURATION)}`);
    assert.match(await withFlags([]), new RegExp(`keep ${CONFIGURATION}$`));
    assert.match(textOf(await uninstall(root, true, false)), new RegExp(`keep ${CONFIGURATION}`));
  }));

Deno.test("flags that are installed already change nothing, even in an edited configuration", () =>
  inRoot(async ({ root, withFlags }) => {
    const flags = ["--kubeconfig=/k", "--cluster-cidr=10.1.0.0/16", "--iptables-sync-period=30s"];
    await withFlags(flags);
    await Deno.writeTextFile(root + CONFIGURATION, `${await read(root + CONFIGURATION)}\n\n# mine\n`);
    assert.match(await withFlags(flags), new RegExp(`keep ${CONFIGURATION}$`));
  }));

Deno.test("other flags are refused with the difference; forced, they are applied and a copy is kept", () =>
  inRoot(async ({ root, withFlags }) => {
    await withFlags(["--kubeconfig=/k", "--source=file:/m"]);
    const before = await read(root + CONFIGURATION);
    const other = ["--proxy-mode=nftables", "--source=file:/other"];
    const refused = await withFlags(other).then(() => "", ({ message }: Error) => message);
    assert.match(refused, /^-mode: iptables\n\+mode: nftables$/m);
    assert.match(refused, /^-\*?--source=file:\/m\n\+--source=file:\/other$/m);
    assert.doesNotMatch(refused, /^[-+].*kubeconfig/m, "an installed flag that is not given stays");
    assert.equal(await read(root + CONFIGURATION), before);
    const backup = "2026-01-31T120000Z";
    assert.equal(
      await withFlags(other, { force: true }),
      `same ${PROGRAM}\nreplace ${UNIT} (${UNIT}.${backup})\nreplace ${CONFIGURATION} (${CONFIGURATION}.${backup})`,
    );
    assert.equal(await read(`${root}${CONFIGURATION}.${backup}`), before);
    assert.deepEqual(wordsOfUnit(await read(root + UNIT)), ["--source=file:/other"]);
    assert.match(await read(root + CONFIGURATION), /^mode: nftables$/m);
    assert.match(await read(root + CONFIGURATION), /kubeconfig: \/k$/m);
  }));

Deno.test("a file given with --config replaces an installed configuration only by force", () =>
  inRoot(async ({ root, withFlags }) => {
    await withFlags([]);
    const template = "kind: KubeProxyConfiguration\nmode: ipvs\n";
    await assert.rejects(withFlags([], { template }), /\+mode: ipvs/);
    // As with run, the file decides what --proxy-mode would.
    await withFlags(["--hostname-override=n1", "--proxy-mode=nftables"], { template, force: true });
    assert.equal(await read(root + CONFIGURATION), `${template}hostnameOverride: n1\n`);
    await Deno.writeTextFile(root + CONFIGURATION, "mode: [");
    await assert.rejects(withFlags(["--proxy-mode=nftables"]), /not valid YAML/);
  }));

Deno.test("replacing a running program does not affect it", () =>
  inRoot(async ({ root, program, steps }) => {
    await steps();
    using open = await Deno.open(root + PROGRAM);
    await Deno.writeTextFile(program, "two");
    await steps();
    assert.equal(await new Response(open.readable).text(), "one");
  }));

Deno.test("nothing is installed beside a package, whose files it would hide", () =>
  inRoot(async ({ root, steps }) => {
    await Deno.mkdir(dirname(root + PACKAGED_UNIT), { recursive: true });
    await Deno.writeTextFile(root + PACKAGED_UNIT, unit);
    for (const dryRun of [true, false]) {
      await assert.rejects(steps(unit, dryRun), /^Error: a package has installed .*remove it first/);
    }
    await assert.rejects(Deno.stat(root + PROGRAM), Deno.errors.NotFound);
  }));

Deno.test("uninstall removes installed files, keeps edited ones, and removes those too with --all", () =>
  inRoot(async ({ root, steps }) => {
    await steps();
    await Deno.writeTextFile(`${root}${CONFIGURATION}`, "changed");
    assert.equal(
      textOf(await uninstall(root, true, false)),
      `remove ${PROGRAM}\nremove ${UNIT}\nkeep ${CONFIGURATION}`,
    );
    await Deno.stat(root + PROGRAM);
    await uninstall(root, false, false);
    for (const path of [PROGRAM, UNIT, RECORD, "/var/lib/sluice"]) {
      await assert.rejects(Deno.stat(root + path), Deno.errors.NotFound, path);
    }
    assert.equal(await read(root + CONFIGURATION), "changed");
    assert.deepEqual(leftBehind(root), [root + CONFIGURATION]);
    await assert.rejects(uninstall(root, true, false), /not installed by sluice install: .*apt-get purge sluice/);
    await steps();
    await uninstall(root, false, true);
    assert.equal(await read(root + CONFIGURATION), "changed", "not written by that installation");
    await Deno.remove(root + CONFIGURATION);
    await steps();
    await Deno.writeTextFile(root + CONFIGURATION, "changed again");
    await uninstall(root, false, true);
    await assert.rejects(Deno.stat(`${root}/etc/sluice`), Deno.errors.NotFound);
  }));

Deno.test("an installation that cannot write a file names it, and uninstall removes the others", () =>
  inRoot(async ({ root, steps }) => {
    await Deno.mkdir(root);
    await Deno.writeTextFile(`${root}/etc`, "not a folder");
    await assert.rejects(steps(), (error: Error) => {
      assert.equal(error.message, `cannot write ${root}${UNIT}`);
      return true;
    });
    assert.equal(textOf(await uninstall(root, false, false)), `remove ${PROGRAM}`);
    assert.deepEqual([...Deno.readDirSync(root)].map(({ name }) => name), ["etc"]);
  }));

Deno.test("a file in place of the root is named", () =>
  inRoot(async ({ root, steps }) => {
    await Deno.writeTextFile(root, "");
    await assert.rejects(steps(), new Error(`cannot write ${root}${PROGRAM}`));
    await assert.rejects(uninstall(root, false, false), /^Error: not installed by sluice install/);
  }));

Deno.test("a damaged record of the installation is named, with the fix", () =>
  inRoot(async ({ root, steps }) => {
    await steps();
    for (const text of ["{broken", "[]", ""]) {
      await Deno.writeTextFile(root + RECORD, text);
      const message = `${root + RECORD} is not a valid installation record (remove it and install again)`;
      await assert.rejects(steps(), { message });
      await assert.rejects(uninstall(root, false, false), { message });
    }
  }));

Deno.test("uninstall removes the folders that install made, if they are empty, and no others", () =>
  inRoot(async ({ root, steps }) => {
    await Deno.mkdir(`${root}/usr`, { recursive: true });
    await steps();
    await steps();
    await uninstall(root, false, true);
    for (const path of ["/usr/local", "/etc", "/var"]) {
      await assert.rejects(Deno.stat(root + path), Deno.errors.NotFound, path);
    }
    await Deno.stat(`${root}/usr`);
    await steps();
    await Deno.writeTextFile(`${root}/usr/local/bin/other`, "");
    await uninstall(root, false, true);
    await Deno.stat(`${root}/usr/local/bin/other`);
  }));

Deno.test("flags are written to the configuration with the same meaning; its comments stay", () => {
  const args = [
    "--proxy-mode=nftables",
    "--kubeconfig=/k",
    "--iptables-sync-period=1m30s",
    "--nodeport-addresses=10.0.0.0/8,fd00::/8",
    "--masquerade-all",
    "--hostname-override=n1",
    "--cluster-cidr=10.1.0.0/16,fd00:1::/48",
    "--conntrack-max-per-core=0",
  ];
  const line = parse(args);
  assert(line.kind === "start");
  const text = withFlags(configuration, line.flags);
  for (const comment of configuration.matchAll(/^ *#.*$/gm)) assert(text.includes(comment[0].trim()), comment[0]);
  const { configuration: fromFile } = accepted(["--config", "f"], { files: { f: text } });
  for (
    const name of [
      "mode",
      "kubeconfig",
      "syncPeriodMs",
      "nodePortAddresses",
      "masqueradeAll",
      "nodeName",
      "clusterCIDR",
    ] as const
  ) {
    assert.deepEqual(fromFile[name], line.configuration[name], name);
  }
  assert.equal(fromFile.conntrack.maxPerCore, 0);
  assert.equal(withFlags(configuration, new Map()), configuration);
  const inMode = withFlags("mode: nftables\n", new Map([["masquerade-all", true]]));
  assert.equal(inMode, "mode: nftables\nnftables:\n  masqueradeAll: true\n");
});

Deno.test("flags without a configuration field are written to the unit, quoted for systemd", () => {
  const line = parse(["--source=file:/a b/100%", "--control-socket=", "--config=f", "-v=4"], {
    files: { f: configuration },
  });
  assert(line.kind === "start");
  const words = flagsBesideFile(line.flags);
  assert.deepEqual(words, ["--source=file:/a b/100%", "--control-socket="]);
  assert.match(
    unitWith(unit, words),
    /^ExecStart=\/usr\/local\/bin\/sluice --config \/etc\/sluice\/config\.yaml --state-directory \/var\/lib\/sluice --logging-format text "--source=file:\/a b\/100%%" --control-socket=$/m,
  );
  assert.equal(unitWith(unit, []), unit);
});

Deno.test("words survive the quoting of a unit and of a script", () => {
  const words = ["--source=file:/a b/100%", `--control-socket=/$HOME/"x"/it's`, "--master=https://[::1]:6443", "-v=4"];
  assert.deepEqual(wordsOfUnit(unitWith(unit, words)), words);
  assert.deepEqual(wordsOfScript(scriptWith(script, words)), words);
  assert.deepEqual(wordsOfUnit(unit), []);
  assert.deepEqual(
    wordsOfUnit("ExecStart=/usr/local/bin/sluice run --config /c \\\n  --source 'file:/a b' -v 4"),
    ["--source=file:/a b", "-v=4"],
    "as an administrator writes them",
  );
});

Deno.test("the service manager is the one of the root", async () => {
  const root = await Deno.makeTempDir();
  try {
    assert.equal(serviceManagerIn(root), undefined);
    await Deno.mkdir(`${root}/sbin`);
    await Deno.writeTextFile(`${root}/sbin/openrc-run`, "");
    assert.equal(serviceManagerIn(root), "openrc");
    await Deno.mkdir(`${root}/usr/lib/systemd/systemd`, { recursive: true });
    assert.equal(serviceManagerIn(root), "systemd");
    const flags = new Map([["source", "file:/m"]]);
    const [service] = wantedInstallation(root, "openrc", flags, undefined, configuration).files;
    assert.deepEqual([service?.path, service?.mode], [SCRIPT, 0o755]);
    assert(service !== undefined && "text" in service.content);
    assert.match(service.content.text, /^command_args="--config .* '--source=file:\/m'"$/m);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("a file that cannot take its place leaves nothing behind", async () => {
  const root = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${root}/etc/file`, { recursive: true });
    await assert.rejects(putFile(root, textFile("/etc/file", "text")), /cannot write .*\/etc\/file/);
    assert.deepEqual([...Deno.readDirSync(`${root}/etc`)].map(({ name }) => name), ["file"]);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
