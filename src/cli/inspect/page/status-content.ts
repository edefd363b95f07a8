/** The content of the status page: the report of `gatehouse status` for browsers. */
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { breakable, command, html, type Html } from '../../../server/status-page/html.ts';
import type { Attention } from '../status/report/attention.ts';
import type { StatusReport } from '../status/report/status-report.ts';
import { relative } from '../status/time-line.ts';
import { describeHandlers, policyCells, type Tone } from '../status/cells.ts';
import { adviceOn, matchesNothing, type PolicyRow } from '../status/report/policies.ts';
import { describeRestrictions } from '../status/format-status.ts';
import { badge, lines, listSection, nothing, pieces } from './parts.ts';
import {
  authoritySection,
  leaderSection,
  servedCertsSection,
  servingCertsSection,
  targetsSection,
} from './trust-sections.ts';
import {
  authoritySentence,
  certsSentence,
  leaderSentence,
  policiesSentence,
  targetsSentence,
  windowsSentence,
} from './sentences.ts';
import { referencesSection } from './references-section.ts';
import { windowsSection } from './windows-section.ts';

/** @param windows all RestoreWindows: the report contains only open ones and those with violations */
export function statusContent(
  report: StatusReport,
  windows: readonly RestoreWindow[],
  policies: readonly AdmissionPolicy[],
): Html {
  const now = new Date(report.checkedAt);
  return html`${verdict(report)}${describeRestrictions(report).map(nothing)}${tiles(report, now)}${authoritySection(report, now)}${servingCertsSection(report, now)}${servedCertsSection(report, now)}${targetsSection(report)}${policiesSection(report, now)}${referencesSection(policies)}${windowsSection(report, windows, now)}${leaderSection(report, now)}`;
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
    .map(
      ({ object, message, command: next }) =>
        html`<li>
          <b>${breakable(object)}</b>:
          ${lines(message)}${next === undefined ? undefined : html` ${command(next)}`}
        </li>`,
    );
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

/** Part of the report, id of its section, whether all of it was read, and its sentence. */
type Tile = readonly [Attention['part'], string, boolean, string];

/** A sentence about each part, with a link to it. */
function tiles(report: StatusReport, now: Date): Html {
  const { leader, authority, servingCerts, injectionTargets, admissionPolicies, restoreWindows } = report;
  const isRead = ({ unread }: Pick<StatusReport['servingCerts'], 'unread'>) => unread.length === 0;
  const all: readonly Tile[] = [
    ['authority', 'authority', authority.source !== undefined, authoritySentence(report, now)],
    ['servingCerts', 'serving-certs', isRead(servingCerts), certsSentence(report)],
    ['injectionTargets', 'targets', isRead(injectionTargets), targetsSentence(report)],
    ['admissionPolicies', 'policies', isRead(admissionPolicies), policiesSentence(report)],
    ['restoreWindows', 'windows', isRead(restoreWindows), windowsSentence(report)],
    ['leader', 'leader', leader.state !== 'Unknown', leaderSentence(report)],
  ];
  return html`<nav id="tiles" class="tiles" aria-label="Parts">
    ${all.map((tile) => tileOf(tile, report.attention))}
  </nav> `;
}

function tileOf([part, target, isRead, sentence]: Tile, attention: readonly Attention[]): Html {
  const wrong = attention.filter((item) => item.part === part).length;
  const tone: Tone = wrong > 0 ? 'bad' : isRead ? 'good' : 'warn';
  return html`<a id="tile-${target}" href="#${target}" class="${tone}"
    >${sentence}${isRead ? '' : ' (not all could be read)'}</a
  > `;
}

function policiesSection({ admissionPolicies: { unread, items }, handlers }: StatusReport, now: Date): Html {
  const rows = items.map((policy) => {
    const { name, message } = policy;
    return {
      cells: [
        ...pieces(policyCells(policy)),
        violationsOf(policy, now),
        message !== undefined
          ? messageOf(adviceOn(name, message))
          : matchesNothing(policy)
            ? 'matched no existing object'
            : '',
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
    `Gatehouse counts violations of existing objects hourly and when a policy changes.${
      handlers.length === 0 ? '' : ` Handlers: ${describeHandlers(handlers)}`
    }`,
    ['Policy', 'Ready', 'Installed', 'Enforcement', 'Violations', 'Message'],
  );
}

const messageOf = ({ message, command: next }: ReturnType<typeof adviceOn>): Html =>
  html`<span>${lines(message)}${next === undefined ? undefined : html` ${command(next)}`}</span>`;

function violationsOf({ violations, checkedAt }: PolicyRow, now: Date): Html {
  if (violations === undefined) return html`<span>not counted yet</span>`;
  const when = checkedAt === undefined ? '' : ` ${relative(checkedAt, now)}`;
  return html`<span>${badge(String(violations), violations === 0 ? 'good' : 'warn')}${when}</span>`;
}
