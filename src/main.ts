#!/usr/bin/env node
import { run } from './commands/program.ts';

await run(process.argv);
