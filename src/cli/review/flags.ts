/** The flags of `gatehouse review`, and the mode that they select. */
import type { UserInfo } from '../../admission/review/request.ts';
import type { ClusterFlags, ReportFormat } from '../terminal/options.ts';
import { refuse } from './input.ts';

export interface ReviewFlags extends ClusterFlags {
  readonly policies?: readonly string[];
  readonly filename?: readonly string[];
  readonly old?: readonly string[];
  readonly existing?: readonly string[];
  readonly crds?: readonly string[];
  readonly recursive?: boolean;
  readonly namespace?: string;
  readonly user?: string;
  readonly group?: readonly string[];
  readonly operation?: 'CREATE' | 'UPDATE' | 'DELETE';
  readonly handlers?: string;
  readonly suite?: readonly string[];
  readonly allowHandlers?: boolean;
  readonly cluster?: boolean;
  readonly output: ReportFormat;
  readonly showPatch?: boolean;
}

/** `policies`: there is nothing to review; the policies and handlers are only compiled. */
type Mode = 'objects' | 'policies' | 'suites' | 'cluster';

/** Each flag, and the modes that allow it. All modes allow the others. */
const FLAGS: readonly (readonly [keyof ReviewFlags, string, readonly Mode[]])[] = [
  ['policies', '-p', ['objects', 'policies', 'cluster']],
  ['filename', '-f', ['objects']],
  ['old', '--old', ['objects']],
  ['existing', '--existing', ['objects']],
  ['crds', '--crds', ['objects', 'policies', 'cluster']],
  ['namespace', '--namespace', ['objects']],
  ['user', '--user', ['objects']],
  ['group', '--group', ['objects']],
  ['operation', '--operation', ['objects']],
  ['handlers', '--handlers', ['objects', 'policies']],
  ['suite', '--suite', ['suites']],
  ['allowHandlers', '--allow-handlers', ['suites']],
  ['cluster', '--cluster', ['cluster']],
  ['kubeconfig', '--kubeconfig', ['cluster']],
  ['context', '--context', ['cluster']],
  ['showPatch', '--show-patch', ['objects', 'suites']],
];

export function modeOf(flags: ReviewFlags): Mode {
  const mode = selectedMode(flags);
  const foreign = FLAGS.filter(([key, , modes]) => flags[key] !== undefined && !modes.includes(mode));
  refuse(foreign.map(([, name]) => `${name} cannot be combined with ${CONFLICTS[mode](name)}`));
  if (INPUTS.flatMap((key) => flags[key] ?? []).filter((path) => path === '-').length > 1)
    refuse(['the standard input can be read only once: use - only once']);
  if (mode !== 'objects') return mode;
  refuse([
    ...(flags.filename === undefined
      ? ['nothing to review: use -f <objects>, -p <policies>, --suite <tests> or --cluster']
      : []),
    ...(flags.old !== undefined && flags.operation !== undefined && flags.operation !== 'UPDATE'
      ? [`--old is for an UPDATE only: omit it for a ${flags.operation}, or use --existing`]
      : []),
    ...(flags.old === undefined && flags.operation === 'UPDATE'
      ? ['an UPDATE needs the current objects: pass them with --old']
      : []),
  ]);
  return mode;
}

function selectedMode({ suite, cluster, filename, policies, handlers }: ReviewFlags): Mode {
  if (suite !== undefined) return 'suites';
  if (cluster === true) return 'cluster';
  return filename === undefined && (policies ?? handlers) !== undefined ? 'policies' : 'objects';
}

const INPUTS = ['policies', 'filename', 'old', 'existing', 'crds'] as const;

const CONFLICTS: Readonly<Record<Mode, (name: string) => string>> = {
  objects: (name) =>
    `the review of objects: ${name === '--allow-handlers' ? 'name the handlers with --handlers' : `add --cluster, or omit ${name}`}`,
  policies: () => 'policies alone: pass the objects to review with -f',
  suites: () => '--suite: set it in the suite',
  cluster: () => '--cluster: omit it',
};

export function userOf(username = 'user', groups: readonly string[] = []): UserInfo {
  const [, namespace] = /^system:serviceaccount:([^:]+):[^:]+$/.exec(username) ?? [];
  const implied = [
    ...(namespace === undefined ? [] : ['system:serviceaccounts', `system:serviceaccounts:${namespace}`]),
    username === 'system:anonymous' ? 'system:unauthenticated' : 'system:authenticated',
  ];
  return { username, uid: '', groups: [...new Set([...groups, ...implied])], extra: {} };
}
