/** The content of the status page: the report of `gatehouse status` for browsers. */
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { html, type Html } from '../../../server/status-page/html.ts';
import type { Attention } from '../status/report/attention.ts';
import type { StatusReport } from '../status/report/status-report.ts';
import { relative, span } from '../status/time-line.ts';
import { policyCells, type Tone } from '../status/cells.ts';
import type { PolicyRow } from '../status/report/policies.ts';
import { describeRestrictions } from '../status/format-status.ts';
import { badge, lines, listSection, nothing, pieces } from './parts.ts';
import {
  authoritySection,
  leaderSection,
  servedCertsSection,
  servingCertsSection,
  targetsSection,
} from './trust-sections.ts';
import { windowsSection } from './windows-section.ts';

/** @param windows all RestoreWindows: the report contains only open ones and those with violations */
export function statusContent(report: StatusReport, windows: readonly RestoreWindow[]): Html {
  const now = new Date(report.checkedAt);
  return html`${verdict(report)}${describeRestrictions(report).map(nothing)}${tiles(report, now)}${authoritySection(report, now)}${servingCertsSection(report, now)}${servedCertsSection(report, now)}${targetsSection(report)}${policiesSection(report, now)}${windowsSection(report, windows, now)}${leaderSection(report, now)}`;
}

const MAX_ATTENTION = 50;

function verdict({ attention, healthy }: StatusReport): Html {
  const [tone, title] = healthy
    ? ['good', 'Gatehouse is healthy.']
    : attention.length === 0
      ? ['warn', 'No problems found, but some parts could not be read.']
      : [
          'bad',
          `${attention.length} ${attention.length === 1 ? 'problem needs' : 'problems need'} attention`,
        ];
  const items = attention
    .slice(0, MAX_ATTENTION)
    .map(({ object, message }) => html`<li><b>${object}</b>: ${lines(message)}</li>`);
  const left = attention.length - items.length;
  // The role makes screen readers announce changes.
  return html`<section id="verdict" class="verdict ${tone}" role="status" aria-labelledby="verdict-title">
    <h2 id="verdict-title">${title}</h2>
    ${
      items.length === 0
        ? undefined
        : html`<ul>
            ${items}
          </ul>`
    }${left > 0 ? html`<p class="more">and ${left} more</p>` : undefined}
  </section> `;
}

/** Part of the report, id of its section, number of parts that could not be read, value and label. */
type Tile = readonly [Attention['part'], string, number, string | number, string];

/** A summary of each part, with a link to it. */
function tiles(report: StatusReport, now: Date): Html {
  const { leader, authority, servingCerts, injectionTargets, admissionPolicies, restoreWindows } = report;
  const { generations, source } = authority;
  const active = generations.find((generation) => generation.state === 'active') ?? generations[0];
  const left = active === undefined ? '–' : span(Math.max(0, Date.parse(active.notAfter) - now.getTime()));
  const violations = admissionPolicies.items.reduce((sum, item) => sum + (item.violations ?? 0), 0);
  const count = ({
    unread,
    items,
  }: Pick<StatusReport['servingCerts'], 'unread'> & { items: readonly unknown[] }) =>
    [unread.length, items.length] as const;
  const leads = { Held: 'yes', Free: 'no', Expired: 'no', Unknown: '?' }[leader.state];
  const all: readonly Tile[] = [
    ['authority', 'authority', source === undefined ? 1 : 0, left, 'until the CA expires'],
    ['servingCerts', 'serving-certs', ...count(servingCerts), 'serving certificates'],
    ['injectionTargets', 'targets', ...count(injectionTargets), 'injection targets'],
    [
      'admissionPolicies',
      'policies',
      ...count(admissionPolicies),
      `policies, ${violations} ${violations === 1 ? 'violation' : 'violations'}`,
    ],
    [
      'restoreWindows',
      'windows',
      ...count(restoreWindows),
      `of ${restoreWindows.total} restore windows open or with violations`,
    ],
    ['leader', 'leader', leader.state === 'Unknown' ? 1 : 0, leads, 'has a leader'],
  ];
  return html`<nav id="tiles" class="tiles" aria-label="Parts">
    ${all.map((tile) => tileOf(tile, report.attention))}
  </nav> `;
}

function tileOf([part, target, unread, value, label]: Tile, attention: readonly Attention[]): Html {
  const wrong = attention.filter((item) => item.part === part).length;
  const tone: Tone = wrong > 0 ? 'bad' : unread > 0 ? 'warn' : 'good';
  const note =
    wrong > 0 ? `, ${wrong} ${wrong === 1 ? 'problem' : 'problems'}` : unread > 0 ? ', not all readable' : '';
  return html`<a id="tile-${target}" href="#${target}" class="${tone}"
    ><b>${value}</b><span>${label}${note}</span></a
  > `;
}

function policiesSection({ admissionPolicies: { unread, items } }: StatusReport, now: Date): Html {
  const rows = items.map((policy) => {
    const { message } = policy;
    return {
      cells: [
        ...pieces(policyCells(policy)),
        violationsOf(policy, now),
        message === undefined ? '' : html`<span>${lines(message)}</span>`,
      ],
      isProblem: message !== undefined,
    };
  });
  return listSection(
    'policies',
    'Admission policies',
    unread,
    'No policy exists.',
    rows,
    'Gatehouse counts violations of existing objects hourly and when a policy changes',
    ['Policy', 'Ready', 'Installed', 'Enforcement', 'Violations', 'Message'],
  );
}

function violationsOf({ violations, checkedAt }: PolicyRow, now: Date): Html {
  if (violations === undefined) return html`<span>not counted yet</span>`;
  const when = checkedAt === undefined ? '' : ` ${relative(checkedAt, now)}`;
  return html`<span>${badge(String(violations), violations === 0 ? 'good' : 'warn')}${when}</span>`;
}
