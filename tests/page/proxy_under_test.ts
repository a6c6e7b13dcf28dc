import { type ManifestFolder, type WholeProxy, withManifests, withWholeProxy } from "../fakes/whole_proxy.ts";

/** A proxy whose manifests a test can change. */
export type ProxyUnderTest = WholeProxy & Pick<ManifestFolder, "write">;

/** Runs `test` with a proxy of `node-1` on these manifests, with further flags. */
export function withProxy(
  manifests: string,
  test: (proxy: ProxyUnderTest) => Promise<void>,
  flags: readonly string[] = [],
): Promise<void> {
  return withManifests(
    manifests,
    ({ args, write }) =>
      withWholeProxy(
        { args: [...args, "--hostname-override", "node-1", ...flags] },
        (proxy) => test({ ...proxy, write }),
      ),
  );
}
