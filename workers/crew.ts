/** The workers of both families, each of which can start the other's successor. */
import { FAMILIES, type Family, otherFamily } from "../platform/mod.ts";
import type { FromWorker, ToWorker, WorkerCode } from "./protocol.ts";
import type { WorkerHandle, WorkerListener } from "./supervise.ts";
import { createWebWorker } from "./web_worker.ts";

/** How a crew is put together. */
export interface CrewOptions {
  readonly codeOf: (family: Family) => WorkerCode;
  /** Where the workers look for tools. */
  readonly path: string;
  /** No worker is left, so that none can be started; or a worker needs the program to restart. */
  readonly onLost: (reason: string) => void;
  /** Starts one of the first workers; a Web Worker by default. */
  readonly createWorker?: (code: WorkerCode, onFailure: (reason: string) => void) => FirstWorker;
}

/** The part of a Web Worker that is used. */
export type FirstWorker = Pick<Worker, "postMessage" | "terminate" | "onmessage">;

/** The workers of both families. */
export interface Crew {
  /**
   * A worker for a family: at first the one that there is, later one that the other family's worker starts. Throws where
   * there is nobody who could.
   */
  spawn(family: Family, listener: WorkerListener): WorkerHandle;
}

interface Member {
  readonly number: number;
  readonly family: Family;
  /** The sibling that has started it, and with which it ends; undefined for the first ones. */
  readonly starter: Member | undefined;
  readonly post: (message: ToWorker, transfer?: Transferable[]) => void;
  readonly end: () => void;
  listener: WorkerListener | undefined;
  isAlive: boolean;
  /** It was told to stop, which is no loss. */
  isStopping: boolean;
  /** It is about to end since its family has no services: its sibling is to stay. */
  isResting: boolean;
  /** It is to end, once the sibling that it has started has. */
  isDismissed: boolean;
}

/**
 * Starts both families' workers. From then on this isolate needs no right to start programs, which it should give up: a
 * worker that dies or hangs is replaced by its sibling, and the new one talks to this isolate over a port of its own.
 * A worker that was started so ends with the one that has started it. Throws where this program may not run the tools.
 */
export function createCrew(options: CrewOptions): Crew {
  const { codeOf, path, onLost, createWorker = createWebWorker } = options;
  const members = new Map<Family, Member>();
  let numbers = 0;
  let isLost = false;

  const failed = (member: Member, reason: string) => {
    if (!member.isAlive) return;
    if (member.listener) member.listener.onFailure(reason);
    else early.set(member, reason);
  };

  /** What befell the first workers before anybody listened. */
  const early = new Map<Member, string>();

  const lose = (reason: string) => {
    if (isLost) return;
    isLost = true;
    onLost(reason);
  };

  const hear = (member: Member, message: FromWorker) => {
    if (message.type === "restart-needed") return lose(message.reason);
    if (message.type !== "sibling-failed") return member.listener?.onMessage(message);
    for (const other of members.values()) if (other.number === message.number) failed(other, message.reason);
  };

  const enlist = (family: Family, parts: Pick<Member, "post" | "end" | "starter" | "number">): Member => {
    const member: Member = {
      family,
      listener: undefined,
      isAlive: true,
      isStopping: false,
      isResting: false,
      isDismissed: false,
      ...parts,
    };
    members.set(family, member);
    return member;
  };

  const first = (family: Family) => {
    const worker = createWorker(codeOf(family), (reason) => failed(member, reason));
    const member = enlist(family, {
      number: ++numbers,
      starter: undefined,
      post: (message, transfer = []) => worker.postMessage(message, transfer),
      end: () => worker.terminate(),
    });
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => hear(member, data);
    member.post({ type: "role", family, path });
  };

  const successor = (family: Family): Member => {
    const starter = members.get(otherFamily(family))!;
    if (!starter.isAlive) throw new Error("the other family's worker, which would have to start it, is gone as well");
    const { port1, port2 } = new MessageChannel();
    const number = ++numbers;
    const member = enlist(family, {
      number,
      starter,
      post: (message) => port1.postMessage(message),
      end() {
        port1.close();
        if (starter.isAlive) starter.post({ type: "end-sibling" });
      },
    });
    port1.onmessage = ({ data }: MessageEvent<FromWorker>) => hear(member, data);
    port1.onmessageerror = () => failed(member, "a message from it could not be read");
    starter.post({ type: "start-sibling", number, port: port2 }, [port2]);
    return member;
  };

  const dismiss = (member: Member) => {
    const started = [...members.values()].find(({ starter, isAlive }) => starter === member && isAlive);
    if (!member.isAlive) return;
    if (started && (member.isStopping || member.isResting)) {
      member.isDismissed = true;
      return;
    }
    member.isAlive = false;
    member.end();
    if (started) failed(started, `the ${member.family} worker, which had started it, is gone`);
    if (member.starter?.isDismissed) dismiss(member.starter);
    if ([...members.values()].every(({ isAlive, isStopping }) => !isAlive && !isStopping)) {
      lose("no worker is left that could start another; the rules stay");
    }
  };

  // Its sibling must be able to start it again, and must not end with it.
  const mayRest = (member: Member): boolean => {
    const sibling = members.get(otherFamily(member.family))!;
    return sibling.isAlive && !sibling.isResting && sibling.starter !== member;
  };

  for (const family of FAMILIES) first(family);

  return {
    spawn(family, listener) {
      const present = members.get(family)!;
      // One that was to rest may have stayed for the sibling that it has started.
      const isFree = present.listener === undefined || present.isAlive && present.isDismissed && present.isResting;
      const member = isFree ? present : successor(family);
      member.isResting = member.isDismissed = false;
      member.listener = listener;
      const reason = early.get(member);
      if (reason !== undefined) queueMicrotask(() => failed(member, reason));
      return {
        post(message) {
          if (message.type === "stop") member.isStopping = !message.keepWorker;
          member.post(message);
        },
        terminate: () => dismiss(member),
        release() {
          member.listener = undefined;
        },
        beginRest: () => member.isResting ||= mayRest(member),
      };
    },
  };
}
