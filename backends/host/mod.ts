/**
 * Settings and tables of the host that several modes use: conntrack, sysctls, limits of the process.
 *
 * In: deltas, sysctls. Out: removed flows, findings. May run: conntrack, sysctl, prlimit, choom.
 */
export { createConntrackCleaner, createUnansweredCleaner, type UdpFrontend, udpFrontend } from "./conntrack.ts";
export { deleteFlows, inTurns, listFlows } from "./conntrack_tool.ts";
export { adjustOomScore, ENOUGH_FOR_RELAY, findOpenFiles, judgeOpenFiles, raiseOpenFiles } from "./process_limits.ts";
export { findSysctls, isWritten, readSysctl, readSysctls, reportSetting, writeSysctls } from "./sysctl.ts";
