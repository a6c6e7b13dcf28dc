/** The images of the cluster's pods: one root file system under all names, since no registry is asked. */

/** An image for the container runtime. */
export interface Image {
  readonly name: string;
  /** The command line that runs without one of the pod's own. */
  readonly command: readonly string[];
  /** Whether arguments of the pod follow the first word of the command. */
  readonly hasEntrypoint: boolean;
}

/** The image of sandboxes. */
export const PAUSE: Image = {
  name: "cluster.test/pause:1",
  command: ["/agnhost", "pause"],
  hasEntrypoint: true,
};

/** The image of the suite's own pods. */
export const AGNHOST: Image = {
  name: "cluster.test/agnhost:1",
  command: ["/agnhost", "pause"],
  hasEntrypoint: true,
};

/**
 * Writes an archive of these images for `ctr images import`.
 * @param root the folder with their root file system
 * @param folder for the archive and its parts
 * @returns the path of the archive
 */
export async function writeImages(images: readonly Image[], root: string, folder: string): Promise<string> {
  const left = ["./proc/*", "./sys/*", "./dev/*", "./var/cache/*", "./var/lib/apt/*", "./usr/share/*"];
  const without = left.map((path) => `--exclude=${path}`);
  await tar("layer.tar", folder, ["--numeric-owner", ...without, "--directory", root, "."]);
  const layer = await digestOf(`${folder}/layer.tar`);
  const manifest = [];
  for (const [index, { name, command, hasEntrypoint }] of images.entries()) {
    const [first, ...rest] = command;
    const run = hasEntrypoint ? { Entrypoint: [first], Cmd: rest } : { Cmd: command };
    const file = `${index}.json`;
    const configuration = {
      architecture: Deno.build.arch === "x86_64" ? "amd64" : "arm64",
      os: "linux",
      rootfs: { type: "layers", diff_ids: [`sha256:${layer}`] },
      config: { ...run, Env: ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"], WorkingDir: "/", Labels: { image: name } },
    };
    Deno.writeTextFileSync(`${folder}/${file}`, JSON.stringify(configuration));
    manifest.push({ Config: file, RepoTags: [name], Layers: ["layer.tar"] });
  }
  Deno.writeTextFileSync(`${folder}/manifest.json`, JSON.stringify(manifest));
  const parts = ["manifest.json", "layer.tar", ...images.map((_, index) => `${index}.json`)];
  await tar("images.tar", folder, ["--directory", folder, ...parts]);
  Deno.removeSync(`${folder}/layer.tar`);
  return `${folder}/images.tar`;
}

async function tar(archive: string, folder: string, args: readonly string[]): Promise<void> {
  const command = new Deno.Command("tar", { args: ["--create", "--file", `${folder}/${archive}`, ...args] });
  const { success, stderr } = await command.output();
  if (!success) throw new Error(`cannot write ${folder}/${archive}: ${new TextDecoder().decode(stderr)}`);
}

async function digestOf(path: string): Promise<string> {
  const { stdout } = await new Deno.Command("sha256sum", { args: [path] }).output();
  return new TextDecoder().decode(stdout).split(" ")[0]!;
}
