/** The command lines of the processes and of `gatehouse manifests`, which take the settings of a replica as flags. */
import { readFileSync } from 'node:fs';
import { Option, type Command } from 'commander';
import { parse } from 'yaml';

import {
  ConfigError,
  resolveConfigOf,
  settingsOf,
  type CommandName,
  type ConfigOf,
  type Source,
} from '../config/config.ts';
import { environmentName } from '../config/environment.ts';
import { SETTINGS, type SettingName } from '../config/settings.ts';
import { messageOf } from '../json/abort.ts';

const NAMES = Object.keys(SETTINGS).filter((name): name is SettingName => name in SETTINGS);

type Options = Readonly<Record<string, string | undefined>>;

const EXIT_CODES = 'Exit code: 0 stopped by a signal, 1 failure, 2 invalid setting.';

const SERVE_HELP = `
Examples:
  gatehouse serve                                          in a Pod, with its ServiceAccount
  gatehouse serve --config gatehouse.yaml                  settings from a file; flags and variables take precedence
  gatehouse serve --handlers ./handlers --log-level debug  with custom handlers
  gatehouse serve --dev-url https://192.0.2.10:8443        from a developer machine, for the cluster of the current context

${EXIT_CODES}`;

const WEBHOOK_HELP = `
It needs a leader in the cluster: of "gatehouse controllers" or "gatehouse serve".

Examples:
  gatehouse webhook                          in a Pod, with its ServiceAccount
  gatehouse webhook --config gatehouse.yaml  settings from a file, which may be the one of the controllers

${EXIT_CODES}`;

const CONTROLLERS_HELP = `
It listens for health, readiness and metrics only, and for the status page.

Examples:
  gatehouse controllers                          in a Pod, with its ServiceAccount
  gatehouse controllers --config gatehouse.yaml  settings from a file, which may be the one of the webhooks

${EXIT_CODES}`;

const PROCESSES = ['webhook', 'controllers', 'serve'] as const;
type ProcessName = (typeof PROCESSES)[number];

export function addProcesses(program: Command): void {
  addProcess(program, 'serve', 'run the webhooks and the controllers in one process', SERVE_HELP);
  addProcess(program, 'webhook', 'run one replica of the webhooks', WEBHOOK_HELP);
  const description = 'run one replica of the controllers; one replica leads';
  addProcess(program, 'controllers', description, CONTROLLERS_HELP);
}

function addProcess(program: Command, process: ProcessName, description: string, help: string): void {
  const command = program
    .command(process)
    .description(description)
    .option('--config <file>', 'YAML file with settings; the keys are the names of the flags')
    .addHelpText('after', help);
  const used = settingsOf(process);
  const unused = NAMES.filter((name) => !used.has(name));
  for (const name of NAMES) command.addOption(toOption(name).hideHelp(!used.has(name)));
  command.action(async (options: Options) => {
    const flags = flagsOf(options);
    for (const name of unused)
      if (flags[name] !== undefined) command.error(`error: ${refusalOf(name, process)}`);
    const notices: string[] = [];
    const config = configFrom(process, flags, command, options.config, (notice) => notices.push(notice));
    await start(process, config, notices);
  });
}

async function start<Name extends ProcessName>(
  process: Name,
  config: ConfigOf<Name>,
  notices: readonly string[],
): Promise<void> {
  const { processes } = await import('./serve.ts');
  await processes[process](config, { notices });
}

function refusalOf(name: SettingName, process: ProcessName): string {
  const users = PROCESSES.filter((one) => settingsOf(one).has(name)).map((one) => `gatehouse ${one}`);
  return `--${name} is a flag of ${users.join(' and ')}, not of gatehouse ${process}: remove it`;
}

const MANIFESTS_HELP = `
Examples:
  gatehouse manifests --handlers ./handlers | kubectl apply -f -
  gatehouse manifests -p policy.yaml | kubectl apply -f -
  gatehouse manifests -p policy.yaml --vap | kubectl apply -f -   ValidatingAdmissionPolicies
  kubectl get admissionpolicy servers -o yaml | gatehouse manifests -p - | kubectl apply -f -

Exit code: 0 success, 1 a handler cannot be loaded or a policy cannot be read, 2 wrong usage.`;

type ManifestOptions = Options & {
  readonly policies?: readonly string[];
  readonly vap?: boolean;
  readonly map?: boolean;
  readonly targetVersion?: string;
};

export function addManifests(program: Command): void {
  const command = program.command('manifests');
  for (const name of settingsOf('manifests')) command.addOption(toOption(name));
  command
    .description('print the manifests that policies and handlers need in addition to deploy/ (YAML)')
    .option('-p, --policies <paths...>', 'AdmissionPolicies: files, folders or - (standard input)')
    .option('--vap', 'print what the API server can enforce itself, as ValidatingAdmissionPolicies')
    .option('--map', 'with --vap: also print MutatingAdmissionPolicies, for Kubernetes 1.36 and later')
    .option(
      '--target-version <version>',
      'with --vap: Kubernetes version that enforces them, e.g. 1.34 (default: the newest)',
    )
    .addHelpText('after', MANIFESTS_HELP)
    .action(async ({ policies, vap, map, targetVersion, ...options }: ManifestOptions) => {
      const config = configFrom('manifests', flagsOf(options), command);
      if (vap === true) {
        if (policies === undefined) return command.error('error: --vap needs -p: it compiles policies');
        const { nativeManifests } = await import('./review/policy-manifests.ts');
        const { minorOf } = await import('./restore/rehearse/input.ts');
        const { WrongUsage } = await import('./restore/new-window.ts');
        const wanted = { ownNamespace: config.namespace, map: map === true };
        try {
          process.stdout.write(nativeManifests(policies, { ...wanted, minor: minorOf(targetVersion) }));
        } catch (error) {
          if (error instanceof WrongUsage) return command.error(`error: ${error.message}`);
          throw error;
        }
        return;
      }
      if (policies === undefined && config.handlers === undefined)
        return command.error('error: nothing to print: use --handlers <folder> or -p <policies>');
      if (policies !== undefined) {
        const { policyManifests } = await import('./review/policy-manifests.ts');
        process.stdout.write(policyManifests(policies));
        if (config.handlers === undefined) return;
        process.stdout.write('---\n');
      }
      const { manifests } = await import('./manifests.ts');
      process.stdout.write(await manifests(config));
      // A handler may have started timers or connections when it was loaded.
      process.exit(0);
    });
}

function toOption(name: SettingName): Option {
  const { description, default: fallback, bare } = SETTINGS[name];
  const shown = fallback === undefined ? '' : ` (default: ${fallback})`;
  const variable = environmentName(name);
  const text = `${description}${shown}${variable === undefined ? '' : ` [${variable}]`}`;
  // Each component of deploy/ that omits a part adds another flag.
  if (name === 'without')
    return new Option(`--${name} <value>`, text).argParser((value, previous: string | undefined) =>
      previous === undefined ? value : `${previous},${value}`,
    );
  const short = name === 'namespace' ? '-n, ' : '';
  return bare === undefined
    ? new Option(`${short}--${name} <value>`, text)
    : new Option(`--${name} [value]`, text).preset(bare);
}

const flagsOf = (options: Options): Source =>
  Object.fromEntries(
    NAMES.flatMap((name) => {
      const value = options[toOption(name).attributeName()];
      return value === undefined ? [] : [[name, value]];
    }),
  );

function configFrom<Name extends CommandName>(
  name: Name,
  flags: Source,
  command: Command,
  file?: string,
  onIgnored?: (message: string) => void,
): ConfigOf<Name> {
  try {
    return resolveConfigOf(
      name,
      flags,
      process.env,
      file === undefined ? {} : readConfigFile(file),
      onIgnored,
    );
  } catch (error) {
    if (error instanceof ConfigError) command.error(`error: ${error.message.replaceAll('\n', '; ')}`);
    throw error;
  }
}

function readConfigFile(path: string): Source {
  let content: unknown;
  try {
    content = parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new ConfigError(`--config: ${messageOf(error)}`, { cause: error });
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content))
    throw new ConfigError(`--config: ${path} is not a map of settings`);
  const unknown = Object.keys(content).filter((key) => !Object.hasOwn(SETTINGS, key));
  if (unknown.length > 0)
    throw new ConfigError(
      `--config: ${path} has unknown settings ${unknown.join(', ')}; known settings: ${NAMES.join(', ')}`,
    );
  return Object.fromEntries(Object.entries(content).map(([key, value]) => [key, String(value)]));
}
