// BLAKE2b (RFC 7693) with a digest of 16 bytes. Node's crypto has it with 64 bytes only, and a shorter digest is
// not a prefix of a longer one. 64-bit words are pairs of 32-bit numbers (low, high): BigInt is 30 times slower.

const DIGEST_BYTES = 16;
const BLOCK_BYTES = 128;

const IV = new Uint32Array([
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
  0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
]);

const SIGMA = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
  [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
  [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
  [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
  [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
];

const v = new Uint32Array(32);
const m = new Uint32Array(32);
const h = new Uint32Array(16);
const block = Buffer.alloc(BLOCK_BYTES);

/** Adds the word at `b` to the word at `a`. */
function addWord(a, b) {
  const low = v[a] + v[b];
  v[a + 1] = v[a + 1] + v[b + 1] + (low > 0xffffffff ? 1 : 0);
  v[a] = low;
}

/** Adds a word of the message to the word at `a`. */
function addMessage(a, word) {
  const low = v[a] + m[word];
  v[a + 1] = v[a + 1] + m[word + 1] + (low > 0xffffffff ? 1 : 0);
  v[a] = low;
}

function mix(a, b, c, d, x, y) {
  addWord(a, b);
  addMessage(a, x);
  let low = v[d] ^ v[a];
  let high = v[d + 1] ^ v[a + 1];
  v[d] = high; // rotated by 32
  v[d + 1] = low;
  addWord(c, d);
  low = v[b] ^ v[c];
  high = v[b + 1] ^ v[c + 1];
  v[b] = (low >>> 24) ^ (high << 8);
  v[b + 1] = (high >>> 24) ^ (low << 8);
  addWord(a, b);
  addMessage(a, y);
  low = v[d] ^ v[a];
  high = v[d + 1] ^ v[a + 1];
  v[d] = (low >>> 16) ^ (high << 16);
  v[d + 1] = (high >>> 16) ^ (low << 16);
  addWord(c, d);
  low = v[b] ^ v[c];
  high = v[b + 1] ^ v[c + 1];
  v[b] = (high >>> 31) ^ (low << 1);
  v[b + 1] = (low >>> 31) ^ (high << 1);
}

function compress(count, isLast) {
  for (let i = 0; i < 16; i++) {
    v[i] = h[i];
    v[i + 16] = IV[i];
  }
  v[24] ^= count >>> 0;
  v[25] ^= Math.floor(count / 0x100000000);
  if (isLast) {
    v[28] = ~v[28];
    v[29] = ~v[29];
  }
  for (let i = 0; i < 32; i++) m[i] = block.readUInt32LE(4 * i);
  for (const s of SIGMA) {
    mix(0, 8, 16, 24, 2 * s[0], 2 * s[1]);
    mix(2, 10, 18, 26, 2 * s[2], 2 * s[3]);
    mix(4, 12, 20, 28, 2 * s[4], 2 * s[5]);
    mix(6, 14, 22, 30, 2 * s[6], 2 * s[7]);
    mix(0, 10, 20, 30, 2 * s[8], 2 * s[9]);
    mix(2, 12, 22, 24, 2 * s[10], 2 * s[11]);
    mix(4, 14, 16, 26, 2 * s[12], 2 * s[13]);
    mix(6, 8, 18, 28, 2 * s[14], 2 * s[15]);
  }
  for (let i = 0; i < 16; i++) h[i] ^= v[i] ^ v[i + 16];
}

/**
 * Return the BLAKE2b digest of some bytes: 16 bytes as 32 hexadecimal digits.
 * @param {Buffer} data
 * @returns {string}
 */
export function blake2b16(data) {
  h.set(IV);
  h[0] ^= 0x01010000 ^ DIGEST_BYTES;
  let at = 0;
  while (data.length - at > BLOCK_BYTES) {
    data.copy(block, 0, at, at + BLOCK_BYTES);
    at += BLOCK_BYTES;
    compress(at, false);
  }
  block.fill(0);
  data.copy(block, 0, at);
  compress(data.length, true);
  const digest = Buffer.alloc(DIGEST_BYTES);
  for (let i = 0; i < DIGEST_BYTES / 4; i++) digest.writeUInt32LE(h[i], 4 * i);
  return digest.toString('hex');
}
