import assert from "node:assert/strict";
import { flagsBesideFile, withFlags } from "../../../../cli/installation/edited_configuration.ts";
import { CONFIGURATION, filesOf, PROGRAM, UNIT, unitWith } from "../../../../cli/installation/files.ts";
import { install, leftBehind, type Step, uninstall } from "../../../../cli/installation/installation.ts";
import { RECORD } from "../../../../cli/installation/record.ts";
import { accepted } from "../../config/parse.ts";
import { parse } from "../../config/parse.ts";

const DEPLOY = new URL("../../../../deploy/", import.meta.url);
const unit = await Deno.readTextFile(new URL("sluice.service", DEPLOY));
const configuration = await Deno.readTextFile(new URL("config.yaml", DEPLOY));

/** Runs a test with an empty root and a program to install there. */
async function inRoot(
  test: (place: { root: string; program: string; steps: (given?: Partial<Given>) => Promise<string> }) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const program = `${folder}/built`;
  await Deno.writeTextFile(program, "one");
  const root = `${folder}/root`;
  const steps = async (given: Partial<Given> = {}) => {
    const { isConfigured = false, dryRun = false, ...texts } = given;
    const files = filesOf({ program, unit, configuration, isConfigured, helpers: {}, ...texts });
    return textOf(await install(files, { root, dryRun }));
  };
  try {
    await test({ root, program, steps });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

interface Given {
  readonly configuration: string;
  readonly unit: string;
  readonly isConfigured: boolean;
  readonly dryRun: boolean;
}

const textOf = (steps: readonly Step[]) => steps.map(({ path, decision }) => `${decision} ${path}`).join("\n");
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
      new RegExp(`ExecStart=${PROGRAM} --config ${CONFIGURATION}$`, "m"),
      "the unit has the same paths",
    );
    assert.equal(await steps(), `same ${PROGRAM}\nsame ${UNIT}\nsame ${CONFIGURATION}`);
  }));

Deno.test("a dry run prints the same and writes nothing", () =>
  inRoot(async ({ root, steps }) => {
    assert.match(await steps({ dryRun: true }), /^write .*\nwrite .*\nwrite .*$/);
    await assert.rejects(Deno.stat(root), Deno.errors.NotFound);
  }));

Deno.test("a newer program replaces the older one; edited files are kept", () =>
  inRoot(async ({ root, program, steps }) => {
    await steps();
    await Deno.writeTextFile(program, "two");
    await Deno.writeTextFile(root + CONFIGURATION, `${configuration}\n# mine\n`);
    await Deno.writeTextFile(root + UNIT, `${unit}\n# mine\n`);
    assert.equal(await steps({ isConfigured: true }), `replace ${PROGRAM}\nkeep ${UNIT}\nkeep ${CONFIGURATION}`);
    assert.equal(await read(root + PROGRAM), "two");
    assert.match(await read(root + CONFIGURATION), /# mine/);
  }));

Deno.test("an unedited unit is replaced by a newer one, an unedited configuration only if flags were given", () =>
  inRoot(async ({ root, steps }) => {
    const requested = withFlags(configuration, new Map([["proxy-mode", "nftables"]]));
    await steps({ configuration: requested, isConfigured: true });
    const next = { unit: `${unit}\n# newer\n` };
    assert.match(await steps(next), new RegExp(`replace ${UNIT}\nkeep ${CONFIGURATION}`), "no flags were given");
    assert.match(await read(root + CONFIGURATION), /^mode: nftables$/m);
    assert.match(await steps({ ...next, isConfigured: true }), new RegExp(`same ${UNIT}\nreplace ${CONFIGURATION}`));
  }));

Deno.test("replacing a running program does not affect it", () =>
  inRoot(async ({ root, program, steps }) => {
    await steps();
    using open = await Deno.open(root + PROGRAM);
    await Deno.writeTextFile(program, "two");
    await steps();
    assert.equal(await new Response(open.readable).text(), "one");
  }));

Deno.test("uninstall removes installed files, keeps edited ones, and removes those too with --all", () =>
  inRoot(async ({ root, steps }) => {
    await steps();
    await Deno.writeTextFile(`${root}${CONFIGURATION}`, "changed");
    const only = { root, dryRun: true, all: false };
    assert.equal(textOf(await uninstall(only)), `remove ${PROGRAM}\nremove ${UNIT}\nkeep ${CONFIGURATION}`);
    await Deno.stat(root + PROGRAM);
    await uninstall({ ...only, dryRun: false });
    for (const path of [PROGRAM, UNIT, RECORD, "/var/lib/sluice"]) {
      await assert.rejects(Deno.stat(root + path), Deno.errors.NotFound, path);
    }
    assert.equal(await read(root + CONFIGURATION), "changed");
    assert.deepEqual(leftBehind(root), [root + CONFIGURATION]);
    await assert.rejects(uninstall(only), /not installed/);
    await steps({ isConfigured: true });
    await uninstall({ root, dryRun: false, all: true });
    assert.equal(await read(root + CONFIGURATION), "changed", "not written by that installation");
    await Deno.remove(root + CONFIGURATION);
    await steps();
    await Deno.writeTextFile(root + CONFIGURATION, "changed again");
    await uninstall({ root, dryRun: false, all: true });
    await assert.rejects(Deno.stat(`${root}/etc/sluice`), Deno.errors.NotFound);
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
});

Deno.test("flags without a configuration field are written to the unit, quoted for systemd", () => {
  const line = parse(["--source=file:/a b/100%", "--control-socket=", "--config=f", "-v=4"], {
    files: { f: configuration },
  });
  assert(line.kind === "start");
  const words = flagsBesideFile(line.flags, ["config"]);
  assert.deepEqual(words, ["--source=file:/a b/100%", "--control-socket="]);
  assert.match(
    unitWith(unit, words),
    /^ExecStart=\/usr\/local\/bin\/sluice --config \/etc\/sluice\/config\.yaml "--source=file:\/a b\/100%%" --control-socket=$/m,
  );
  assert.equal(unitWith(unit, []), unit);
});
