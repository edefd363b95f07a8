/** Each part of the report, for people. */
import { type Cell, type Colour, type Row, formatTable, paint } from '../../../terminal/table.ts';
import { printable } from '../../../../json/printable.ts';
import { describeUnread, type Unread } from '../reading.ts';
import type { GenerationRow } from '../report/authority.ts';
import type { InjectionTargetRow } from '../report/injection-targets.ts';
import type { LeaderPart } from '../report/leader.ts';
import type { ConditionStatus, PolicyRow } from '../report/policies.ts';
import type { ServingCertRow } from '../report/serving-certs.ts';
import type { StatusReport } from '../report/status-report.ts';
import { age, minute, relative } from './span.ts';
import { timeLine } from './time-line.ts';

export interface Look {
  readonly colours: boolean;
  readonly now: Date;
}

type Section = (report: StatusReport, look: Look) => readonly string[];

/** Lines, the title first. */
export const SECTIONS: readonly Section[] = [
  leader,
  authority,
  servingCerts,
  injectionTargets,
  admissionPolicies,
  restoreWindows,
];

function leader({ leader: part }: StatusReport, look: Look): readonly string[] {
  const rows = part.replicas.map(({ name, ready, leads, node, image, restarts }) =>
    row(
      [
        { text: name },
        flag(ready),
        { text: leads ? 'yes' : '' },
        { text: String(restarts) },
        { text: node ?? '–' },
      ],
      image ?? '–',
    ),
  );
  return [
    `Leader: ${paint(whoLeads(part, look.now), look.colours)}`.trimEnd(),
    ...unread(part.unread),
    ...table(['REPLICA', 'READY', 'LEADS', 'RESTARTS', 'NODE', 'IMAGE'], rows, look),
  ];
}

function whoLeads({ state, holder = '', acquiredAt, renewedAt }: LeaderPart, now: Date): Cell {
  switch (state) {
    case 'Held':
      return { text: `${holder}, for ${age(acquiredAt, now)}` };
    case 'Free':
      return { text: 'nobody leads', colour: 'red' };
    case 'Expired':
      return { text: `nobody leads: ${holder} was last heard of ${relative(renewedAt, now)}`, colour: 'red' };
    case 'Unknown':
      return { text: '' };
  }
}

/** Columns of a bar. */
const WIDTH = 40;

const STROKES = { pending: '+', active: '=', retiring: '-', trusted: '=' } as const;

function authority({ authority: part }: StatusReport, look: Look): readonly string[] {
  const { source, phase, generations } = part;
  const lives = generations.map(({ state, notBefore, notAfter }) => ({
    from: new Date(notBefore),
    to: new Date(notAfter),
    stroke: STROKES[state],
  }));
  const { bars, from, to } = timeLine(lives, look.now, WIDTH);
  const rows = generations.map((generation, index) =>
    row(
      [
        { text: generation.id },
        generationState(generation),
        { text: minute(generation.notBefore) },
        { text: minute(generation.notAfter) },
        { text: relative(generation.notAfter, look.now) },
      ],
      bars[index] ?? '',
    ),
  );
  const scale = `${day(from)} to ${day(to)}, | is now`;
  const { rotationAt } = generations.find(({ state }) => state === 'active') ?? {};
  const next =
    rotationAt === undefined ? '' : `; the next generation is due ${relative(rotationAt, look.now)}`;
  const told = source === 'ConfigMap' ? ', as published: its states stand in a Secret' : '';
  return [
    `Certificate authority${phase === undefined ? '' : `: ${phase}${next}`}${told}`,
    ...unread(part.unread),
    ...table(['GENERATION', 'STATE', 'FROM', 'TO', 'ENDS', scale], rows, look),
  ];
}

const day = (date: Date): string => date.toISOString().slice(0, 10);

function generationState({ state, expired }: GenerationRow): Cell {
  if (expired) return { text: `${state}, expired`, colour: 'red' };
  return {
    text: state,
    colour: ({ pending: 'yellow', active: 'green', retiring: 'grey', trusted: 'green' } as const)[state],
  };
}

const CERT_COLOURS: Readonly<Record<ServingCertRow['state'], Colour>> = {
  Valid: 'green',
  RenewalDue: 'yellow',
  Overdue: 'red',
  Expired: 'red',
  UnknownSigner: 'red',
  Unusable: 'red',
};

function servingCerts({ servingCerts: { unread: not, items } }: StatusReport, look: Look): readonly string[] {
  const rows = items.map(({ namespace, name, service, state, notAfter, renewAt, signedBy, message }) =>
    row(
      [
        { text: `${namespace}/${name}` },
        { text: service },
        { text: state, colour: CERT_COLOURS[state] },
        { text: relative(notAfter, look.now) },
        {
          text: renewAt === undefined && notAfter !== undefined ? 'with its CA' : relative(renewAt, look.now),
        },
      ],
      message ?? `signed by ${signedBy ?? 'an unknown key'}`,
    ),
  );
  return [
    `Serving certificates: ${count(items.length, not)}`,
    ...unread(not),
    ...table(['SECRET', 'SERVICE', 'STATE', 'ENDS', 'RENEWAL', ''], rows, look),
  ];
}

const TARGET_COLOURS: Readonly<Record<InjectionTargetRow['state'], Colour>> = {
  Current: 'green',
  Stale: 'red',
  Invalid: 'red',
  Empty: 'grey',
  Unknown: 'yellow',
};

function injectionTargets(
  { injectionTargets: { unread: not, items } }: StatusReport,
  look: Look,
): readonly string[] {
  const rows = items.map(({ kind, namespace, name, state, source, message }) =>
    row(
      [
        { text: kind },
        { text: namespace === undefined ? name : `${namespace}/${name}` },
        { text: state, colour: TARGET_COLOURS[state] },
        { text: source },
      ],
      message ?? '',
    ),
  );
  return [
    `Injection targets: ${count(items.length, not)}`,
    ...unread(not),
    ...table(['KIND', 'NAME', 'CABUNDLE', 'FROM', ''], rows, look),
  ];
}

const CONDITION_COLOURS: Readonly<Record<ConditionStatus, Colour>> = {
  True: 'green',
  False: 'red',
  Unknown: 'yellow',
};

function admissionPolicies(
  { admissionPolicies: { unread: not, items } }: StatusReport,
  look: Look,
): readonly string[] {
  const rows = items.map((policy) => {
    const { name, ready, webhooksInstalled, enforcement, message = '' } = policy;
    return row(
      [
        { text: name },
        { text: ready, colour: CONDITION_COLOURS[ready] },
        { text: webhooksInstalled, colour: CONDITION_COLOURS[webhooksInstalled] },
        { text: enforcement },
        violationsOf(policy),
      ],
      ...message.split('\n'),
    );
  });
  return [
    `AdmissionPolicies: ${count(items.length, not)}`,
    ...unread(not),
    ...table(['NAME', 'READY', 'INSTALLED', 'ENFORCEMENT', 'VIOLATIONS', ''], rows, look),
  ];
}

function violationsOf({ violations }: PolicyRow): Cell {
  if (violations === undefined) return { text: '–' };
  return { text: String(violations), colour: violations === 0 ? 'green' : 'yellow' };
}

function restoreWindows({ restoreWindows: part }: StatusReport, look: Look): readonly string[] {
  const { unread: not, items, total } = part;
  const rows = items.map(({ name, source, phase, since, expiresAt, violations }) =>
    row(
      [
        { text: name },
        { text: phase, colour: phase === 'CompletedWithViolations' ? 'red' : 'yellow' },
        { text: relative(since, look.now) },
        { text: relative(expiresAt, look.now) },
        { text: violations?.toString() ?? '–' },
      ],
      source,
    ),
  );
  const said =
    not.length > 0 ? '' : `: ${items.length === 0 ? 'none' : items.length} open or unclean, of ${total}`;
  return [
    `RestoreWindows${said}`,
    ...unread(not),
    ...table(['NAME', 'PHASE', 'OPENED', 'EXPIRES', 'VIOLATIONS', 'SOURCE'], rows, look),
  ];
}

const row = (cells: readonly Cell[], ...lines: readonly string[]): Row => ({ cells, lines });

const flag = (is: boolean): Cell => (is ? { text: 'yes', colour: 'green' } : { text: 'no', colour: 'red' });

/** Where something could not be read, a number would say too much. */
const count = (number: number, not: readonly Unread[]): string =>
  not.length === 0 ? (number === 0 ? 'none' : String(number)) : `${number} seen`;

const table = (headings: readonly string[], rows: readonly Row[], { colours }: Look): readonly string[] =>
  rows.length === 0
    ? []
    : formatTable(headings, rows, colours)
        .split('\n')
        .map((line) => `  ${line}`);

const unread = (parts: readonly Unread[]): readonly string[] =>
  parts.map((part) => printable(`  (${describeUnread(part)})`));
