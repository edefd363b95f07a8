/** What the user asks of `gatehouse review`. */
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

/** As they are written. */
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

/** What else may be said. */
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

/** @throws UnusableInput when flags do not go together */
export function modeOf(flags: ReviewFlags): Mode {
  const mode = flags.suite !== undefined ? 'suites' : flags.cluster === true ? 'cluster' : 'objects';
  const foreign = (Object.keys(NAMES) as Named[]) // an object literal has no other keys
    .filter((name) => flags[name] !== undefined && !ALLOWED[mode].includes(name))
    .map((name) => NAMES[name]);
  refuse(foreign.map((name) => `${name} does not go with ${described(mode)}: ${instead(mode, name)}`));
  if (mode !== 'objects') return mode;
  refuse([
    ...(flags.filename === undefined
      ? ['say what to review: -f <objects>, --suite <tests> or --cluster']
      : []),
    ...(flags.old !== undefined && flags.operation !== undefined && flags.operation !== 'UPDATE'
      ? [
          `--old says how objects are before an UPDATE: leave it out for a ${flags.operation}, or use --existing`,
        ]
      : []),
    ...(flags.old === undefined && flags.operation === 'UPDATE'
      ? ['an UPDATE needs the objects as they are now: give them with --old']
      : []),
    ...(inputs(flags).filter((path) => path === '-').length > 1
      ? ['the standard input can be read only once: write - only once']
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
  if (mode === 'suites') return 'write it in the suite';
  return mode === 'cluster' ? 'leave it out' : `add --cluster, or leave ${name} out`;
}

/** A user as authentication would make it of the name and the groups given. */
export function userOf(username = 'somebody', groups: readonly string[] = []): UserInfo {
  const [, namespace] = /^system:serviceaccount:([^:]+):[^:]+$/.exec(username) ?? [];
  const implied = [
    ...(namespace === undefined ? [] : ['system:serviceaccounts', `system:serviceaccounts:${namespace}`]),
    username === 'system:anonymous' ? 'system:unauthenticated' : 'system:authenticated',
  ];
  return { username, uid: '', groups: [...new Set([...groups, ...implied])], extra: {} };
}
