import { BOOL, INT, TEXT, given, list, message } from './wire.ts';

const CAPABILITIES = message({
  add: [1, list(TEXT)],
  drop: [2, list(TEXT)],
});

const SE_LINUX_OPTIONS = message({
  user: [1, TEXT],
  role: [2, TEXT],
  type: [3, TEXT],
  level: [4, TEXT],
});

const WINDOWS_SECURITY_CONTEXT_OPTIONS = message({
  gmsaCredentialSpecName: [1, given(TEXT)],
  gmsaCredentialSpec: [2, given(TEXT)],
  runAsUserName: [3, given(TEXT)],
  hostProcess: [4, given(BOOL)],
});

const SECCOMP_PROFILE = message({
  type: [1, given(TEXT)],
  localhostProfile: [2, given(TEXT)],
});

const APP_ARMOR_PROFILE = message({
  type: [1, given(TEXT)],
  localhostProfile: [2, given(TEXT)],
});

export const SECURITY_CONTEXT = message({
  capabilities: [1, CAPABILITIES],
  privileged: [2, given(BOOL)],
  seLinuxOptions: [3, SE_LINUX_OPTIONS],
  windowsOptions: [10, WINDOWS_SECURITY_CONTEXT_OPTIONS],
  runAsUser: [4, given(INT)],
  runAsGroup: [8, given(INT)],
  runAsNonRoot: [5, given(BOOL)],
  readOnlyRootFilesystem: [6, given(BOOL)],
  allowPrivilegeEscalation: [7, given(BOOL)],
  procMount: [9, given(TEXT)],
  seccompProfile: [11, SECCOMP_PROFILE],
  appArmorProfile: [12, APP_ARMOR_PROFILE],
});

const SYSCTL = message({
  name: [1, given(TEXT)],
  value: [2, given(TEXT)],
});

export const POD_SECURITY_CONTEXT = message({
  seLinuxOptions: [1, SE_LINUX_OPTIONS],
  windowsOptions: [8, WINDOWS_SECURITY_CONTEXT_OPTIONS],
  runAsUser: [2, given(INT)],
  runAsGroup: [6, given(INT)],
  runAsNonRoot: [3, given(BOOL)],
  supplementalGroups: [4, list(INT)],
  supplementalGroupsPolicy: [12, given(TEXT)],
  fsGroup: [5, given(INT)],
  sysctls: [7, list(SYSCTL)],
  fsGroupChangePolicy: [9, given(TEXT)],
  seccompProfile: [10, SECCOMP_PROFILE],
  appArmorProfile: [11, APP_ARMOR_PROFILE],
  seLinuxChangePolicy: [13, given(TEXT)],
});
