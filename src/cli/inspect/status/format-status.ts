/** The status report as text: one section for each part, and the verdict at the end. */
import { printable } from '../../../json/printable.ts';
import { formatTable, paint, type Cell, type Colour, type Row } from '../../terminal/output.ts';
import { describeUnread, type Unread } from '../read-cluster/reading.ts';
import type { GenerationRow } from './report/authority.ts';
import type { InjectionTargetRow } from './report/injection-targets.ts';
import type { LeaderPart } from './report/leader.ts';
import type { ConditionStatus, PolicyRow } from './report/policies.ts';
import type { ServingCertRow } from './report/serving-certs.ts';
import type { StatusReport } from './report/status-report.ts';
import { age, minute, relative, timeLine } from './time-line.ts';

interface Style {
  readonly colours: boolean;
  readonly now: Date;
}

/** The lines of a section, starting with the title. */
type Section = (report: StatusReport, style: Style) => readonly string[];

const SECTIONS: readonly Section[] = [
  leader,
  authority,
  servingCerts,
  injectionTargets,
  admissionPolicies,
  restoreWindows,
];

export function formatStatus(report: StatusReport, colours: boolean): string {
  const { server, version, namespace, checkedAt } = report;
  const style = { colours, now: new Date(checkedAt) };
  const blocks = [
    [printable(`Gatehouse in namespace ${namespace} of ${server} (${version}), ${checkedAt}`)],
    ...SECTIONS.map((section) => section(report, style)),
    verdict(report, colours),
  ];
  return `${blocks.map((lines) => lines.join('\n')).join('\n\n')}\n`;
}

function verdict({ attention, healthy }: StatusReport, colours: boolean): readonly string[] {
  if (healthy) return [paint({ text: 'Gatehouse is healthy.', colour: 'green' }, colours)];
  if (attention.length === 0)
    return [
      paint({ text: 'No problems found, but some parts could not be read.', colour: 'yellow' }, colours),
    ];
  return [
    paint({ text: 'Needs attention:', colour: 'red' }, colours),
    ...attention.map(({ object, message }) => printable(`  - ${object}: ${message}`)),
  ];
}

function leader({ leader: part }: StatusReport, style: Style): readonly string[] {
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
    `Leader: ${paint(describeLeader(part, style.now), style.colours)}`.trimEnd(),
    ...unread(part.unread),
    ...table(['REPLICA', 'READY', 'LEADS', 'RESTARTS', 'NODE', 'IMAGE'], rows, style),
  ];
}

function describeLeader({ state, holder = '', acquiredAt, renewedAt }: LeaderPart, now: Date): Cell {
  switch (state) {
    case 'Held':
      return { text: `${holder}, for ${age(acquiredAt, now)}` };
    case 'Free':
      return { text: 'no leader', colour: 'red' };
    case 'Expired':
      return {
        text: `no leader: ${holder} last renewed the Lease ${relative(renewedAt, now)}`,
        colour: 'red',
      };
    case 'Unknown':
      return { text: '' };
  }
}

const BAR_WIDTH = 40;

const STROKES = { pending: '+', active: '=', retiring: '-', trusted: '=' } as const;

function authority({ authority: part }: StatusReport, style: Style): readonly string[] {
  const { source, phase, generations } = part;
  const lifetimes = generations.map(({ state, notBefore, notAfter }) => ({
    from: new Date(notBefore),
    to: new Date(notAfter),
    stroke: STROKES[state],
  }));
  const { bars, from, to } = timeLine(lifetimes, style.now, BAR_WIDTH);
  const rows = generations.map((generation, index) =>
    row(
      [
        { text: generation.id },
        generationState(generation),
        { text: minute(generation.notBefore) },
        { text: minute(generation.notAfter) },
        { text: relative(generation.notAfter, style.now) },
      ],
      bars[index] ?? '',
    ),
  );
  const scale = `${day(from)} to ${day(to)}, | is now`;
  const { rotationAt } = generations.find(({ state }) => state === 'active') ?? {};
  const next =
    rotationAt === undefined ? '' : `; the next generation is due ${relative(rotationAt, style.now)}`;
  const published = source === 'ConfigMap' ? ', as published; the Secret has the states' : '';
  return [
    `Certificate authority${phase === undefined ? '' : `: ${phase}${next}`}${published}`,
    ...unread(part.unread),
    ...table(['GENERATION', 'STATE', 'FROM', 'TO', 'ENDS', scale], rows, style),
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

function servingCerts(
  { servingCerts: { unread: missing, items } }: StatusReport,
  style: Style,
): readonly string[] {
  const rows = items.map(({ namespace, name, service, state, notAfter, renewAt, signedBy, message }) =>
    row(
      [
        { text: `${namespace}/${name}` },
        { text: service },
        { text: state, colour: CERT_COLOURS[state] },
        { text: relative(notAfter, style.now) },
        {
          text:
            renewAt === undefined && notAfter !== undefined ? 'with the CA' : relative(renewAt, style.now),
        },
      ],
      message ?? `signed by ${signedBy ?? 'an unknown key'}`,
    ),
  );
  return [
    `Serving certificates: ${count(items.length, missing)}`,
    ...unread(missing),
    ...table(['SECRET', 'SERVICE', 'STATE', 'ENDS', 'RENEWAL', ''], rows, style),
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
  { injectionTargets: { unread: missing, items } }: StatusReport,
  style: Style,
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
    `Injection targets: ${count(items.length, missing)}`,
    ...unread(missing),
    ...table(['KIND', 'NAME', 'CABUNDLE', 'FROM', ''], rows, style),
  ];
}

const CONDITION_COLOURS: Readonly<Record<ConditionStatus, Colour>> = {
  True: 'green',
  False: 'red',
  Unknown: 'yellow',
};

function admissionPolicies(
  { admissionPolicies: { unread: missing, items } }: StatusReport,
  style: Style,
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
    `AdmissionPolicies: ${count(items.length, missing)}`,
    ...unread(missing),
    ...table(['NAME', 'READY', 'INSTALLED', 'ENFORCEMENT', 'VIOLATIONS', ''], rows, style),
  ];
}

function violationsOf({ violations }: PolicyRow): Cell {
  if (violations === undefined) return { text: '–' };
  return { text: String(violations), colour: violations === 0 ? 'green' : 'yellow' };
}

function restoreWindows({ restoreWindows: part }: StatusReport, style: Style): readonly string[] {
  const { unread: missing, items, total } = part;
  const rows = items.map(({ name, source, phase, since, expiresAt, violations }) =>
    row(
      [
        { text: name },
        { text: phase, colour: phase === 'CompletedWithViolations' ? 'red' : 'yellow' },
        { text: relative(since, style.now) },
        { text: relative(expiresAt, style.now) },
        { text: violations?.toString() ?? '–' },
      ],
      source,
    ),
  );
  const counts = missing.length > 0 ? '' : `: ${items.length} of ${total} open or with violations`;
  return [
    `RestoreWindows${counts}`,
    ...unread(missing),
    ...table(['NAME', 'PHASE', 'OPENED', 'EXPIRES', 'VIOLATIONS', 'SOURCE'], rows, style),
  ];
}

const row = (cells: readonly Cell[], ...lines: readonly string[]): Row => ({ cells, lines });

const flag = (is: boolean): Cell => (is ? { text: 'yes', colour: 'green' } : { text: 'no', colour: 'red' });

/** When some objects could not be read, the number is not the total. */
const count = (number: number, missing: readonly Unread[]): string =>
  missing.length === 0 ? (number === 0 ? 'none' : String(number)) : `${number} readable`;

const table = (headings: readonly string[], rows: readonly Row[], { colours }: Style): readonly string[] =>
  rows.length === 0
    ? []
    : formatTable(headings, rows, colours)
        .split('\n')
        .map((line) => `  ${line}`);

const unread = (parts: readonly Unread[]): readonly string[] =>
  parts.map((part) => printable(`  (${describeUnread(part)})`));
