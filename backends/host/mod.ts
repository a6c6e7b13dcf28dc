/**
 * Settings and tables of the host that more than one mode deals with: connection tracking, sysctls, limits of the process.
 */
export { createConntrackCleaner, type UdpFrontend, udpFrontend } from "./conntrack.ts";
export { findOpenFiles, judgeOpenFiles, raiseOpenFiles } from "./file_limit.ts";
export { adjustOomScore } from "./oom_score.ts";
export { isWritten, readSysctl, type Sysctl, writeSysctls } from "./sysctl.ts";
