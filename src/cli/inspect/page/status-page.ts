/** The status page of a replica: the report of `gatehouse status`. The API server decides who may see it. */
import type { Logger } from 'pino';

import type { ControllersConfig } from '../../../config/config.ts';
import { mayUserVisit, reviewToken } from '../../../kube/access.ts';
import type { Context } from '../../../runtime/context.ts';
import type { StatusPage } from '../../../processes/process.ts';
import { audienceOf } from '../../../server/status-page/credentials.ts';
import type { View } from '../../../server/status-page/document.ts';
import { createAccessCheck } from '../../../server/status-page/access.ts';
import { createSharedView } from '../../../server/status-page/status-page.ts';
import { readCluster } from '../read-cluster/read-cluster.ts';
import { valueOf, type Attention } from '../read-cluster/reading.ts';
import { statusReport, type StatusReport } from '../status/report/status-report.ts';
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { breakable, command, html, type Html } from '../../../server/status-page/html.ts';
import {
  auditNote,
  describeHandlers,
  describeRestrictions,
  policyCells,
  CERT_TONES,
  TARGET_TONES,
} from '../status/cells.ts';
import { relative } from '../status/times.ts';
import { adviceOn, type PolicyRow } from '../status/report/policies.ts';
import type { Tone } from '../../terminal/output.ts';
import { badge, lines, listSection, nothing, pieces } from './parts.ts';
import * as sections from './sections.ts';
import { referencesSection } from './references-section.ts';
import { counted } from '../../../json/counted.ts';

const TIMEOUT_MS = 5_000;
const MIN_INTERVAL_MS = 1_000;
/** Limits log lines while the API server does not respond and visitors reload the page. */
const WARN_INTERVAL_MS = 60_000;

type Api = Pick<Context, 'client' | 'discovery' | 'serverClock'> & { readonly server: string };

export function createStatusPage(config: ControllersConfig, log: Logger): StatusPage {
  const now = () => performance.now();
  let api: Api | undefined;
  let warnedAt = -Infinity;
  const connected = (): Api => {
    if (api === undefined) throw new Error('the replica is not connected to the API server yet');
    return api;
  };
  const options = { timeoutMs: TIMEOUT_MS };
  const checkAccess = createAccessCheck(
    (token) => reviewToken(connected().client, token, audienceOf(token), options),
    (subject) => mayUserVisit(connected().client, subject, { path: '/status', verb: 'get' }, options),
    (err) => {
      if (now() - warnedAt < WARN_INTERVAL_MS) return;
      warnedAt = now();
      log.warn({ err }, 'could not check who may see the status page');
    },
    now,
  );
  const view = createSharedView(() => readView(connected(), config), MIN_INTERVAL_MS, now);
  return {
    options: { checkAccess, view, now, log },
    open: ({ client, discovery, serverClock }, server) => {
      api = { client, discovery, serverClock, server };
    },
  };
}

async function readView(
  { client, discovery, serverClock, server }: Api,
  config: ControllersConfig,
): Promise<View> {
  const { namespace, compat } = config;
  const [version, readings] = await Promise.all([
    discovery.serverVersion(AbortSignal.timeout(TIMEOUT_MS)).catch(() => undefined),
    readCluster(client, { namespace, compat }, true),
  ]);
  const report = statusReport(readings, {
    server,
    namespace,
    now: serverClock.now(),
    version: version?.gitVersion ?? 'unknown',
  });
  return {
    subtitle: `${namespace} · ${server} · Kubernetes ${report.version}`,
    content: statusContent(report, valueOf(readings.windows) ?? [], valueOf(readings.policies) ?? []),
    checkedAt: report.checkedAt,
  };
}

/** @param windows all RestoreWindows: the report contains only open ones and those with violations */
export function statusContent(
  report: StatusReport,
  windows: readonly RestoreWindow[],
  policies: readonly AdmissionPolicy[],
): Html {
  const now = new Date(report.checkedAt);
  return html`${verdict(report)}${describeRestrictions(report).map(nothing)}${tiles(report, now)}${sections.authoritySection(report, now)}${sections.servingCertsSection(report, now)}${sections.servedCertsSection(report, now)}${sections.targetsSection(report)}${policiesSection(report, now)}${referencesSection(policies)}${sections.windowsSection(report, windows, now)}${sections.controllersSection(report, now)}${sections.leaderSection(report, now)}`;
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

type Tile = readonly [Attention['part'], string, boolean, string];

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
        message !== undefined ? messageOf(adviceOn(name, message)) : auditNote(policy, now),
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

function authoritySentence({ authority: { generations } }: StatusReport, now: Date): string {
  const active = generations.find(({ state }) => state === 'active') ?? generations[0];
  if (active === undefined) return 'No certificate authority was found';
  return `The CA ${active.expired ? 'expired' : 'is valid and expires'} ${relative(active.notAfter, now)}`;
}

function certsSentence({ servingCerts: { items } }: StatusReport): string {
  const bad = items.filter(({ state }) => CERT_TONES[state] === 'bad').length;
  const due = items.filter(({ state }) => state === 'RenewalDue').length;
  if (bad > 0)
    return `${bad} of ${counted(items.length, 'certificate')} ${bad === 1 ? 'needs' : 'need'} attention`;
  return allOrSome(items.length, 'certificate', 'valid', due === 0 ? '' : `, ${due} due for renewal`);
}

function targetsSentence({ injectionTargets: { items } }: StatusReport): string {
  const stale = items.filter(({ state }) => TARGET_TONES[state] === 'bad').length;
  if (stale > 0)
    return `${stale} of ${counted(items.length, 'CA bundle')} ${stale === 1 ? 'is' : 'are'} not current`;
  return allOrSome(items.length, 'CA bundle', 'current');
}

function policiesSentence({ admissionPolicies: { items } }: StatusReport): string {
  const broken = items.filter(({ ready }) => ready !== 'True').length;
  const violations = items.reduce((sum, item) => sum + (item.violations ?? 0), 0);
  const found = violations === 0 ? '' : `, with ${counted(violations, 'violation')}`;
  if (broken > 0)
    return `${broken} of ${counted(items.length, 'policy')} ${broken === 1 ? 'is' : 'are'} not in force${found}`;
  return allOrSome(items.length, 'policy', 'in force', found);
}

function windowsSentence({ restoreWindows: { items, total }, attention }: StatusReport): string {
  const wrong = attention.filter(({ part }) => part === 'restoreWindows').length;
  if (wrong > 0)
    return `${wrong} of ${counted(total, 'restore window')} ${wrong === 1 ? 'needs' : 'need'} attention`;
  if (total === 0) return 'No restore windows';
  const open = items.filter(({ phase }) => phase === 'Open').length;
  return `${counted(total, 'restore window')}, ${open === 0 ? 'none' : open} open`;
}

function leaderSentence({ leader: { state, replicas } }: StatusReport): string {
  const ready = replicas.filter((replica) => replica.ready).length;
  const pods = replicas.length === 0 ? '' : `, ${ready} of ${counted(replicas.length, 'replica')} ready`;
  switch (state) {
    case 'Held':
      return `A leader is elected${pods}`;
    case 'Free':
    case 'Expired':
      return `No leader${pods}`;
    case 'Unknown':
      return 'The leader is unknown';
  }
}

function allOrSome(count: number, one: string, state: string, more = ''): string {
  if (count === 0) return `No ${counted(0, one).slice(2)}`;
  return `${counted(count, one)}, ${count === 1 ? '' : 'all '}${state}${more}`;
}
