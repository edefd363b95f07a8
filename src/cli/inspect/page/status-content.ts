/** The status of a cluster as a page: what `gatehouse status` says, for browsers. */
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { html, type Html } from '../../../server/status-page/html.ts';
import type { Attention } from '../status/report/attention.ts';
import type { StatusReport } from '../status/report/status-report.ts';
import { span } from '../status/format/span.ts';
import { lines, type Tone } from './parts.ts';
import { policiesSection } from './policies-section.ts';
import { authoritySection, leaderSection, servingCertsSection, targetsSection } from './trust-sections.ts';
import { windowsSection } from './windows-section.ts';

/** @param windows all of them: the report names only those that concern somebody now */
export function statusContent(report: StatusReport, windows: readonly RestoreWindow[]): Html {
  const now = new Date(report.checkedAt);
  return html`${verdict(report)}${tiles(report, now)}${authoritySection(report, now)}${servingCertsSection(report, now)}${targetsSection(report)}${policiesSection(report, now)}${windowsSection(report, windows, now)}${leaderSection(report, now)}`;
}

/** More of them are not read, either. */
const MOST_ATTENTION = 50;

function verdict({ attention, healthy }: StatusReport): Html {
  const [tone, title] = healthy
    ? ['good', 'Everything is fine.']
    : attention.length === 0
      ? ['warn', 'Nothing is wrong in what could be read.']
      : [
          'bad',
          attention.length === 1 ? 'One thing needs attention' : `${attention.length} things need attention`,
        ];
  const items = attention
    .slice(0, MOST_ATTENTION)
    .map(({ object, message }) => html`<li><b>${object}</b>: ${lines(message)}</li>`);
  const left = attention.length - items.length;
  // Read aloud when it changes.
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

/** At a glance, with a way to each part. */
function tiles(report: StatusReport, now: Date): Html {
  const { leader, authority, servingCerts, injectionTargets, admissionPolicies, restoreWindows } = report;
  const active = authority.generations.find(({ state }) => state === 'active') ?? authority.generations[0];
  const violations = admissionPolicies.items.reduce((sum, item) => sum + (item.violations ?? 0), 0);
  const all: readonly Tile[] = [
    {
      ...{ part: 'authority', target: 'authority', unread: authority.source === undefined ? 1 : 0 },
      value:
        active === undefined ? '–' : span(Math.max(0, new Date(active.notAfter).getTime() - now.getTime())),
      label: 'left of the CA',
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
      label: `open or unclean windows, of ${restoreWindows.total}`,
    },
    {
      ...{ part: 'leader', target: 'leader', unread: leader.state === 'Unknown' ? 1 : 0 },
      value: { Held: 'yes', Free: 'no', Expired: 'no', Unknown: '?' }[leader.state],
      label: 'somebody leads',
    },
  ];
  return html`<nav id="tiles" class="tiles" aria-label="Parts">
    ${all.map((tile) => tileOf(tile, report.attention))}
  </nav> `;
}

function tileOf({ part, target, value, label, unread }: Tile, attention: readonly Attention[]): Html {
  const wrong = attention.filter((item) => item.part === part).length;
  const tone: Tone = wrong > 0 ? 'bad' : unread > 0 ? 'warn' : 'good';
  const said = wrong > 0 ? `, ${wrong} to see to` : unread > 0 ? ', not all readable' : '';
  return html`<a id="tile-${target}" href="#${target}" class="${tone}"
    ><b>${value}</b><span>${label}${said}</span></a
  > `;
}
