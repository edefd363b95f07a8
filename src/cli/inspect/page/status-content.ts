/** The content of the status page: the report of `gatehouse status` for browsers. */
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { html, type Html } from '../../../server/status-page/html.ts';
import type { Attention } from '../status/report/attention.ts';
import type { StatusReport } from '../status/report/status-report.ts';
import { relative, span } from '../status/time-line.ts';
import type { ConditionStatus, PolicyRow } from '../status/report/policies.ts';
import { badge, lines, nothing, section, table, unreadParts, type Tone } from './parts.ts';
import { authoritySection, leaderSection, servingCertsSection, targetsSection } from './trust-sections.ts';
import { windowsSection } from './windows-section.ts';

/** @param windows all RestoreWindows: the report contains only open ones and those with violations */
export function statusContent(report: StatusReport, windows: readonly RestoreWindow[]): Html {
  const now = new Date(report.checkedAt);
  return html`${verdict(report)}${tiles(report, now)}${authoritySection(report, now)}${servingCertsSection(report, now)}${targetsSection(report)}${policiesSection(report, now)}${windowsSection(report, windows, now)}${leaderSection(report, now)}`;
}

const MAX_ATTENTION = 50;

function verdict({ attention, healthy }: StatusReport): Html {
  const [tone, title] = healthy
    ? ['good', 'Gatehouse is healthy.']
    : attention.length === 0
      ? ['warn', 'No problems found, but some parts could not be read.']
      : [
          'bad',
          attention.length === 1
            ? '1 problem needs attention'
            : `${attention.length} problems need attention`,
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

interface Tile {
  readonly part: Attention['part'];
  readonly target: string;
  readonly value: string | number;
  readonly label: string;
  readonly unread: number;
}

/** A summary of each part, with a link to it. */
function tiles(report: StatusReport, now: Date): Html {
  const { leader, authority, servingCerts, injectionTargets, admissionPolicies, restoreWindows } = report;
  const active = authority.generations.find(({ state }) => state === 'active') ?? authority.generations[0];
  const violations = admissionPolicies.items.reduce((sum, item) => sum + (item.violations ?? 0), 0);
  const all: readonly Tile[] = [
    {
      ...{ part: 'authority', target: 'authority', unread: authority.source === undefined ? 1 : 0 },
      value:
        active === undefined ? '–' : span(Math.max(0, new Date(active.notAfter).getTime() - now.getTime())),
      label: 'until the CA expires',
    },
    {
      ...{ part: 'servingCerts', target: 'serving-certs', unread: servingCerts.unread.length },
      ...{ value: servingCerts.items.length, label: 'serving certificates' },
    },
    {
      ...{ part: 'injectionTargets', target: 'targets', unread: injectionTargets.unread.length },
      ...{ value: injectionTargets.items.length, label: 'injection targets' },
    },
    {
      ...{ part: 'admissionPolicies', target: 'policies', unread: admissionPolicies.unread.length },
      value: admissionPolicies.items.length,
      label: `policies, ${violations} ${violations === 1 ? 'violation' : 'violations'}`,
    },
    {
      ...{ part: 'restoreWindows', target: 'windows', unread: restoreWindows.unread.length },
      value: restoreWindows.items.length,
      label: `of ${restoreWindows.total} restore windows open or with violations`,
    },
    {
      ...{ part: 'leader', target: 'leader', unread: leader.state === 'Unknown' ? 1 : 0 },
      value: { Held: 'yes', Free: 'no', Expired: 'no', Unknown: '?' }[leader.state],
      label: 'has a leader',
    },
  ];
  return html`<nav id="tiles" class="tiles" aria-label="Parts">
    ${all.map((tile) => tileOf(tile, report.attention))}
  </nav> `;
}

function tileOf({ part, target, value, label, unread }: Tile, attention: readonly Attention[]): Html {
  const wrong = attention.filter((item) => item.part === part).length;
  const tone: Tone = wrong > 0 ? 'bad' : unread > 0 ? 'warn' : 'good';
  const note = wrong > 0 ? `, ${problems(wrong)}` : unread > 0 ? ', not all readable' : '';
  return html`<a id="tile-${target}" href="#${target}" class="${tone}"
    ><b>${value}</b><span>${label}${note}</span></a
  > `;
}

const problems = (count: number): string => `${count} ${count === 1 ? 'problem' : 'problems'}`;

const CONDITION_TONES: Readonly<Record<ConditionStatus, Tone>> = {
  True: 'good',
  False: 'bad',
  Unknown: 'warn',
};

function policiesSection({ admissionPolicies }: StatusReport, now: Date): Html {
  const { unread, items } = admissionPolicies;
  const rows = items.map((policy) => {
    const { name, enforcement, ready, webhooksInstalled, message } = policy;
    return {
      cells: [
        name,
        badge(ready, CONDITION_TONES[ready]),
        badge(webhooksInstalled, CONDITION_TONES[webhooksInstalled]),
        enforcement,
        violationsOf(policy, now),
        message === undefined ? '' : html`<span>${lines(message)}</span>`,
      ],
      isProblem: message !== undefined,
    };
  });
  return section(
    'policies',
    html`Admission policies <span class="count">${items.length}</span>`,
    unreadParts(unread),
    rows.length === 0 && unread.length === 0 ? nothing('No policy exists.') : undefined,
    table(
      'Gatehouse counts violations of existing objects hourly and when a policy changes',
      ['Policy', 'Ready', 'Installed', 'Enforcement', 'Violations', 'Message'],
      rows,
    ),
  );
}

function violationsOf({ violations, checkedAt }: PolicyRow, now: Date): Html {
  if (violations === undefined) return html`<span>not counted yet</span>`;
  const when = checkedAt === undefined ? '' : ` ${relative(checkedAt, now)}`;
  return html`<span>${badge(String(violations), violations === 0 ? 'good' : 'warn')}${when}</span>`;
}
