/** The command line: all commands, and how errors end the process. */
import { enableCompileCache } from 'node:module';
import { basename, join } from 'node:path';
import { isSea } from 'node:sea';
import { Command } from 'commander';

import { VERSION } from '../config/version.ts';
import { messageWithCauses } from '../json/abort.ts';
import { addCompletion } from './completion/completion.ts';
import { addGenerate } from './generate/command.ts';
import { addInit } from './init/command.ts';
import { addDoctor, addStatus } from './inspect/commands.ts';
import { addManifests, addProcesses } from './replica-commands.ts';
import { addRestore } from './restore/command.ts';
import { addRefs } from './refs/command.ts';
import { addReview } from './review/command.ts';
import { addSandbox } from './sandbox/command.ts';

const USAGE_ERROR = 2;

/** Runs the command that `argv` names. User errors end with a message and exit code 2, without a stack trace. */
export async function run(argv: readonly string[]): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', endWithPipe);
  try {
    await createProgram(programName(argv[1])).parseAsync([...argv]);
  } catch (error) {
    // Not `program.error`: the failure has nothing to do with usage, so the help would not explain it.
    console.error(`error: ${messageWithCauses(error)}`);
    process.exit(1);
  }
}

/** As if SIGPIPE had ended the process. */
const PIPE_CLOSED = 141;

let isService = false;

/** The reader has closed the pipe, such as `head`. Services outlive it, and the sandbox first deletes its files. */
function endWithPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error;
  if (!isService) process.exit(PIPE_CLOSED);
}

export function createProgram(name: string): Command {
  const program = new Command(name)
    .description('Admission webhooks, serving certificates and restore mode for Kubernetes')
    .version(VERSION)
    .configureOutput({ outputError: (text, write) => write(`${text.trim().replaceAll('\n', ' ')}\n`) })
    .configureHelp({ sortOptions: true })
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : USAGE_ERROR))
    .hook('preAction', (_program, command) => {
      const isReplica = ['serve', 'webhook', 'controllers'].includes(command.name());
      // A replica starts once, often from a read-only file system.
      if (!isReplica) useCompileCache();
      isService = isReplica || command.name() === 'sandbox';
    });
  addProcesses(program);
  addCompletion(program);
  addDoctor(program);
  addGenerate(program);
  addInit(program);
  addManifests(program);
  addRefs(program);
  addRestore(program);
  addReview(program);
  addSandbox(program);
  addStatus(program);
  completeUsage(program, name);
  return program;
}

/** Usage errors take one line and name the help of their command. The built-in command `help` accepts unknown names. */
function completeUsage(command: Command, path: string): void {
  command.showHelpAfterError(`See ${path} --help`);
  if (command.commands.length === 0) return;
  for (const below of command.commands) completeUsage(below, `${path} ${below.name()}`);
  command
    .helpCommand(false)
    .command('help [command...]')
    .description('display help for a command')
    .action((names: readonly string[]) => {
      helpOf(command, names).help();
    });
}

function helpOf(command: Command, [name, ...further]: readonly string[]): Command {
  if (name === undefined) return command;
  const below = command.commands.find((one) => one.name() === name);
  return below === undefined ? command.error(`error: unknown command '${name}'`) : helpOf(below, further);
}

/** Caches compiled code next to the packages: from the second run on, a command starts in a third of the time. */
function useCompileCache(): void {
  if (isSea()) return;
  enableCompileCache(join(import.meta.dirname, '..', '..', 'node_modules', '.cache', 'gatehouse'));
}

/** kubectl runs `kubectl-gatehouse` as its plugin `gatehouse`. @param script that started the process */
export const programName = (script = ''): string =>
  // On Windows the name ends in .exe or .cmd.
  /^kubectl-gatehouse(\.|$)/.test(basename(script)) ? 'kubectl gatehouse' : 'gatehouse';
