/** The flags of `gatehouse review`, and the mode that they select. */
import type { UserInfo } from '../../admission/review/request.ts';
import { refuse } from './input.ts';

export interface ReviewFlags {
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
  readonly cluster?: boolean;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly output: 'table' | 'json' | 'junit';
  readonly showPatch?: boolean;
}

export type Mode = 'objects' | 'suites' | 'cluster';

const NAMES = {
  policies: '-p',
  filename: '-f',
  old: '--old',
  existing: '--existing',
  crds: '--crds',
  namespace: '--namespace',
  user: '--user',
  group: '--group',
  operation: '--operation',
  handlers: '--handlers',
  suite: '--suite',
  cluster: '--cluster',
  kubeconfig: '--kubeconfig',
  context: '--context',
  showPatch: '--show-patch',
} as const satisfies Partial<Record<keyof ReviewFlags, string>>;

type Named = keyof typeof NAMES;

/** The flags that each mode allows. */
const ALLOWED: Readonly<Record<Mode, readonly Named[]>> = {
  objects: [
    'policies',
    'filename',
    'old',
    'existing',
    'crds',
    'namespace',
    'user',
    'group',
    'operation',
    'handlers',
    'showPatch',
  ],
  suites: ['suite', 'showPatch'],
  cluster: ['cluster', 'policies', 'crds', 'kubeconfig', 'context'],
};

/** @throws UnusableInput when flags cannot be combined */
export function modeOf(flags: ReviewFlags): Mode {
  const mode = flags.suite !== undefined ? 'suites' : flags.cluster === true ? 'cluster' : 'objects';
  const foreign = (Object.keys(NAMES) as Named[]) // an object literal has no other keys
    .filter((name) => flags[name] !== undefined && !ALLOWED[mode].includes(name))
    .map((name) => NAMES[name]);
  refuse(foreign.map((name) => `${name} cannot be combined with ${described(mode)}: ${instead(mode, name)}`));
  if (mode !== 'objects') return mode;
  refuse([
    ...(flags.filename === undefined
      ? ['nothing to review: use -f <objects>, --suite <tests> or --cluster']
      : []),
    ...(flags.old !== undefined && flags.operation !== undefined && flags.operation !== 'UPDATE'
      ? [`--old is for an UPDATE only: omit it for a ${flags.operation}, or use --existing`]
      : []),
    ...(flags.old === undefined && flags.operation === 'UPDATE'
      ? ['an UPDATE needs the current objects: pass them with --old']
      : []),
    ...(inputs(flags).filter((path) => path === '-').length > 1
      ? ['the standard input can be read only once: use - only once']
      : []),
  ]);
  return mode;
}

const inputs = ({ policies = [], filename = [], old = [], existing = [], crds = [] }: ReviewFlags) => [
  ...policies,
  ...filename,
  ...old,
  ...existing,
  ...crds,
];

function described(mode: Mode): string {
  return { objects: 'the review of objects', suites: '--suite', cluster: '--cluster' }[mode];
}

function instead(mode: Mode, name: string): string {
  if (mode === 'suites') return 'set it in the suite';
  return mode === 'cluster' ? 'omit it' : `add --cluster, or omit ${name}`;
}

/** The user with the groups that authentication adds. */
export function userOf(username = 'somebody', groups: readonly string[] = []): UserInfo {
  const [, namespace] = /^system:serviceaccount:([^:]+):[^:]+$/.exec(username) ?? [];
  const implied = [
    ...(namespace === undefined ? [] : ['system:serviceaccounts', `system:serviceaccounts:${namespace}`]),
    username === 'system:anonymous' ? 'system:unauthenticated' : 'system:authenticated',
  ];
  return { username, uid: '', groups: [...new Set([...groups, ...implied])], extra: {} };
}
