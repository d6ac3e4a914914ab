// SPDX-License-Identifier: Apache-2.0
// node with two workers over pipes, and a shell in each round.
const { fork, spawn } = require('child_process');
const fs = require('fs'), crypto = require('crypto');
const digest = (text) => crypto.createHash('sha256').update(text).digest('hex');

function work() {
	process.on('message', (text) => {
		for (let i = 0; i < 500; i++)
			text = digest(text);
		process.send(text);
	});
	process.on('disconnect', () => process.exit(0));
}

const ask = (worker, text) => new Promise((done) => {
	worker.once('message', done);
	worker.send(text);
});

const shell = (text) => new Promise((done) => {
	const child = spawn('sh', ['-c', 'sha256sum']);
	let out = '';
	child.stdout.on('data', (data) => { out += data; });
	child.on('close', () => done(out));
	child.stdin.end(text);
});

async function lead() {
	const workers = [0, 1].map(() => fork(__filename, ['work']));
	const out = fs.openSync('answers', 'w');
	let sum = 'start';

	for (let k = 0; k < 600; k++) {
		const got = await Promise.all(workers.map((w, i) => ask(w, sum + i)));
		sum = digest(got.join() + await shell(sum));
		fs.writeSync(out, k + ' ' + sum + '\n');
		if (!fs.existsSync(process.env.UNTIL))
			await new Promise((done) => setTimeout(done, 100));
	}
	workers.forEach((w) => w.disconnect());
	fs.closeSync(out);
	fs.copyFileSync('answers', 'final');
}

if (process.argv[2] === 'work')
	work();
else
	lead();
