import type { ReceivedEndpoint } from "./assemble_slices.ts";
import type { SourceSink } from "../../core/objects/mod.ts";
import { createAssembler } from "./assembler.ts";
import {
  ENDPOINT,
  ENDPOINT_INFO,
  isSecondPath,
  NODE_INFO,
  OP_ITEM,
  SERVICE,
  SERVICE_CIDR,
  SERVICE_INFO,
  SETS,
} from "../messages/mod.ts";
import { readGlobalEndpoint, readLocalEndpoint } from "./received_endpoint.ts";

/** Options of `createReceiver`. */
export interface ReceiverOptions {
  readonly sink: SourceSink;
  /** This node's name. */
  readonly nodeName: string;
  /** Whether to keep details, to pass them on. */
  readonly inFull: boolean;
}

/** Receives the global or local state from a server of KPNG's protocol, across reconnects. */
export interface Receiver {
  /** A new call begins: the server sends its whole state, even if it does not say so with `Reset`. */
  restart(): void;
  /** Applies one `OpItem`. Returns whether it ends the round. Throws WireError for invalid bytes. */
  receive(bytes: Uint8Array<ArrayBuffer>): boolean;
}

/** A receiver without state. */
export function createReceiver({ sink, nodeName, inFull }: ReceiverOptions): Receiver {
  const assembler = createAssembler(sink, inFull);

  const set = (set: number, path: string, bytes: Uint8Array<ArrayBuffer>) => {
    const sentences: string[] = [];
    const reading = { inFull, problem: (sentence: string) => sentences.push(sentence) };
    const setEndpoint = (endpoint: ReceivedEndpoint | undefined) =>
      assembler.setEndpoint(path, endpoint, { subject: `endpoint ${path}`, sentences });
    switch (set) {
      case SETS.services:
        return assembler.setService(path, SERVICE.decode(bytes));
      case SETS.globalServices:
        return assembler.setService(path, SERVICE_INFO.decode(bytes).service ?? {});
      case SETS.endpoints:
        return setEndpoint(readLocalEndpoint(path, ENDPOINT.decode(bytes), nodeName, reading));
      case SETS.globalEndpoints:
        if (isSecondPath(path)) return;
        return setEndpoint(readGlobalEndpoint(ENDPOINT_INFO.decode(bytes), reading));
      case SETS.globalNodes:
        return assembler.setNode(path, NODE_INFO.decode(bytes).node ?? {});
      case SETS.serviceCIDRs:
        return assembler.setServiceCIDR(path, SERVICE_CIDR.decode(bytes));
    }
  };

  const remove = (set: number, path: string) => {
    if (set === SETS.services || set === SETS.globalServices) assembler.deleteService(path);
    else if (set === SETS.endpoints || set === SETS.globalEndpoints) assembler.deleteEndpoint(path);
    else if (set === SETS.globalNodes) assembler.deleteNode(path);
    else if (set === SETS.serviceCIDRs) assembler.deleteServiceCIDR(path);
  };

  return {
    restart: () => assembler.reset(),
    receive(bytes) {
      const operation = OP_ITEM.decode(bytes);
      if (operation.reset !== undefined) assembler.reset();
      if (operation.set?.ref !== undefined) {
        const { ref, bytes: content = new Uint8Array() } = operation.set;
        set(ref.set ?? 0, ref.path ?? "", content);
      }
      if (operation.delete !== undefined) remove(operation.delete.set ?? 0, operation.delete.path ?? "");
      if (operation.sync === undefined) return false;
      assembler.sync();
      return true;
    },
  };
}
